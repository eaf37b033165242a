//===- VerifyModule.h - the verification of a whole module, at the end of a stage ---------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace zc::graph {

/// Kernels without effects that are alike in types and attributes, one after the other, are verified once: what their
/// verifiers ask for is equal.
class AlikeOps {
public:
  /// Is it to its verifier as the last of its name? If not it is the last one from here on, which the caller verifies.
  bool isLikeLast(mlir::Operation &op);
  /// The last of a name, which is not sound or was erased.
  void forget(mlir::OperationName name) { kinds[name].last = nullptr; }

private:
  /// Of operations of one name.
  struct Kind {
    bool isFunction = false; ///< of the values of its operands: what it is sound by are types and attributes
    mlir::Operation *last = nullptr;
  };
  llvm::SmallDenseMap<mlir::OperationName, Kind> kinds;
};

/// Verifies what mlir::verify does, and fails with its message. That one keeps every operation of the module in a set
/// while it works, and asks for dominance of blocks: of a program of a million operations in one block it takes longer
/// than making it. Here blocks are walked, and whether a value is defined above its use is the order in its block.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace zc::graph
