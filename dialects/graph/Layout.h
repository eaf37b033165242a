//===- Layout.h - channels-last activations: [N, d..., C] for [N, C, d...] -----------------===//
//
// A chain of convolutions, norms, activations and pools computes on tensors whose channels are the last dimension: what
// kernels on CPUs do to channels they do to vectors. The order of dimensions is in the shapes; operations for which
// dimension 1 means something carry `channels_last`, others have their axes renamed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/SmallBitVector.h"

namespace zc::graph {

/// One entry per dimension, as shapes have: [N, C, d...] to [N, d..., C], and back.
llvm::SmallVector<int64_t, 6> toChannelsLast(llvm::ArrayRef<int64_t> entries);
llvm::SmallVector<int64_t, 6> toChannelsFirst(llvm::ArrayRef<int64_t> entries);
/// Where dimension `dim` of a tensor of this rank stands, channels last.
int64_t dimChannelsLast(int64_t dim, int64_t rank);
/// transpose's `permutation` that brings the channels to the end, and that brings them back.
llvm::SmallVector<int64_t, 6> permutationToLast(int64_t rank);
llvm::SmallVector<int64_t, 6> permutationToFirst(int64_t rank);

/// Layoutable's answers for any op: also what is elementwise has some.
llvm::SmallBitVector activationsOf(mlir::Operation *op);
llvm::SmallVector<mlir::Value> buildChannelsLast(mlir::OpBuilder &builder, mlir::Operation *op,
                                                 mlir::ValueRange operands);
/// The op again with `channels_last`.
llvm::SmallVector<mlir::Value> buildMarkedChannelsLast(mlir::OpBuilder &builder, mlir::Operation *op,
                                                       mlir::ValueRange operands);

} // namespace zc::graph
