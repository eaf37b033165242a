//===- Fold.cpp - the table of evaluators --------------------------------------===//
#include "compiler/import/fold/Fold.h"

using namespace zc::importer;

const Fold *zc::importer::findFold(llvm::StringRef opName) {
  static const FoldTable table = [] {
    FoldTable t;
    addElementwiseFolds(t);
    addMovementFolds(t);
    addReductionFolds(t);
    return t;
  }();
  auto found = table.find(opName);
  return found == table.end() ? nullptr : &found->second;
}
