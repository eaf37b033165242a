#include "compiler/import/parameters/Selections.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace zc;
using namespace zc::importer;

/// Of a glob, the characters outside of *, ? and [...].
static size_t lettersOf(llvm::StringRef glob) {
  if (glob.find_first_of("*?[{\\") == llvm::StringRef::npos)
    return std::numeric_limits<size_t>::max();
  size_t letters = 0;
  bool inSet = false;
  for (char c : glob) {
    inSet |= c == '[';
    letters += !inSet && c != '*' && c != '?';
    inSet &= c != ']';
  }
  return letters;
}

Result<Selections> Selections::compile(const std::vector<Selection> &selections) {
  Selections result;
  for (const Selection &selection : selections) {
    auto glob = llvm::GlobPattern::create(selection.glob, 1024);
    if (!glob) {
      std::string problem = llvm::toString(glob.takeError());
      return makeError(Code::usage, unmatchedGlob, "'" + selection.glob + "' is not a glob: " + problem);
    }
    result.entries.push_back({selection, std::move(*glob), lettersOf(selection.glob)});
  }
  return result;
}

const Selection *Selections::match(llvm::StringRef name) {
  Entry *best = nullptr;
  for (Entry &entry : entries) {
    // A name is itself, also where its characters would mean something in a glob.
    if (entry.selection.glob != name && !entry.glob.match(name))
      continue;
    entry.used = true;
    if (!best || entry.letters >= best->letters)
      best = &entry;
  }
  return best ? &best->selection : nullptr;
}

bool Selections::areAll() const {
  return llvm::any_of(entries, [](const Entry &entry) { return entry.selection.kind == Selection::Kind::trainable; });
}

Status Selections::allUsed() const {
  for (const Entry &entry : entries)
    if (!entry.used)
      return makeError(Code::usage, unmatchedGlob, "no parameter matches '" + entry.selection.glob + "'",
                       entry.selection.kind == Selection::Kind::frozen ? "--frozen" : "--trainable",
                       "--list-parameters shows their names");
  return Status::success();
}

std::string Selections::flagOf(const Selection &selection) {
  return selection.kind == Selection::Kind::frozen      ? "--frozen " + selection.glob
         : selection.kind == Selection::Kind::trainable ? "--trainable " + selection.glob
                                                        : "--trainable +" + selection.glob;
}
