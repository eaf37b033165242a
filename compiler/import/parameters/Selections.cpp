#include "compiler/import/parameters/Selections.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/STLExtras.h"

using namespace zc;
using namespace zc::importer;

Result<Selections> Selections::compile(const std::vector<Selection> &selections) {
  Selections result;
  result.selections = selections;
  result.used.resize(selections.size());
  for (const Selection &selection : selections)
    ZC_RETURN_IF_ERROR(result.globs.add(selection.glob, selection.file));
  return result;
}

const Selection *Selections::match(llvm::StringRef name) {
  llvm::SmallVector<size_t> found = globs.matching(name);
  for (size_t i : found)
    used[i] = true;
  return found.empty() ? nullptr : &selections[found.front()];
}

bool Selections::areAll() const {
  return llvm::any_of(selections, [](const Selection &each) { return each.kind == Selection::Kind::trainable; });
}

Status Selections::allUsed() const {
  for (auto [selection, isUsed] : llvm::zip(selections, used))
    if (!isUsed)
      return makeError(Code::usage, unmatchedGlob, "no parameter matches '" + selection.glob + "'",
                       !selection.file.empty()                     ? selection.file
                       : selection.kind == Selection::Kind::frozen ? "--frozen"
                                                                   : "--trainable",
                       "--list-parameters shows their names");
  return Status::success();
}

std::string Selections::flagOf(const Selection &selection) {
  bool isFrozen = selection.kind == Selection::Kind::frozen;
  if (!selection.file.empty())
    return std::string(isFrozen ? "frozen" : "not frozen") + " by '" + selection.glob + "' of " + selection.file;
  return isFrozen                                       ? "--frozen " + selection.glob
         : selection.kind == Selection::Kind::trainable ? "--trainable " + selection.glob
                                                        : "--trainable +" + selection.glob;
}
