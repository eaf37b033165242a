//===- Rewrite.h - patterns and folding over programs of one block --------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace zc::graph {

/// Does what mlir::applyPatternsAndFoldGreedily does bottom up: folds the operations of each program, applies
/// `patterns` to them and erases what is dead, in sweeps from the last one to the first, until a sweep changes nothing;
/// constants go to the front, each once. That one keeps every operation in a list and a map while it works, and looks
/// at the patterns and the operands of each: of a million operations of which few change that is most of its time.
/// Fails if the sweep `maxSweeps` still changes something.
mlir::LogicalResult rewriteGreedily(mlir::ModuleOp module, const mlir::FrozenRewritePatternSet &patterns,
                                    unsigned maxSweeps);

/// The same with the canonical forms of all operations that are known. As MLIR's canonicalizer it stops after ten
/// sweeps.
void canonicalize(mlir::ModuleOp module);

} // namespace zc::graph
