#include "compiler/import/parameters/Globs.h"
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

Status Globs::add(const std::string &text, const std::string &where) {
  auto glob = llvm::GlobPattern::create(text, 1024);
  if (!glob)
    return makeError(Code::usage, unmatchedGlob, "'" + text + "' is not a glob: " + llvm::toString(glob.takeError()),
                     where);
  entries.push_back({text, std::move(*glob), lettersOf(text)});
  return Status::success();
}

llvm::SmallVector<size_t> Globs::matching(llvm::StringRef name) const {
  llvm::SmallVector<size_t> found;
  for (size_t i = entries.size(); i-- > 0;)
    // A name is itself, also where its characters would mean something in a glob.
    if (entries[i].text == name || entries[i].glob.match(name))
      found.push_back(i);
  llvm::stable_sort(found, [&](size_t a, size_t b) { return entries[a].letters > entries[b].letters; });
  return found;
}
