//===- Build.h - building graph ops from parts that may be wrong -------------===//
//
// `builder.create<OpTy>` aborts when no result type can be inferred. Whoever builds from a user's file (import) uses
// createChecked, which reports the labelled error of the op's verifier at the op's location instead.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

namespace zc::graph {

/// Creates and verifies the op called `name`, which must be one that infers its result types; after a reported error
/// nothing is left in the IR.
mlir::FailureOr<mlir::Operation *> createInferred(mlir::OpBuilder &builder, mlir::Location location,
                                                  mlir::OperationName name, mlir::ValueRange operands,
                                                  llvm::ArrayRef<mlir::NamedAttribute> attributes);

/// The same for an op known by its class.
template <typename OpTy>
mlir::FailureOr<OpTy> createChecked(mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange operands,
                                    llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
  mlir::OperationName name(OpTy::getOperationName(), builder.getContext());
  mlir::FailureOr<mlir::Operation *> op = createInferred(builder, location, name, operands, attributes);
  if (mlir::failed(op))
    return mlir::failure();
  return mlir::cast<OpTy>(*op);
}

} // namespace zc::graph
