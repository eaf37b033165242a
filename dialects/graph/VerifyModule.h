//===- VerifyModule.h - the verification of a whole module, at the end of a stage ---------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace zc::graph {

/// Verifies what mlir::verify does, and fails with its message. That one keeps every operation of the module in a set
/// while it works, and asks for dominance of blocks: of a program of a million operations in one block it takes longer
/// than making it. Here blocks are walked, and whether a value is defined above its use is the order in its block;
/// kernels without effects that are alike in types and attributes, one after the other, are verified once.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace zc::graph
