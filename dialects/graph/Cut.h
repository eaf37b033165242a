//===- Cut.h - how tensors are cut over the model axis, and what an op makes of it -------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace zc::graph {

/// Dimension `dim` is `groups` equal runs; of each, rank m of T has the m-th of T equal parts, one after the other.
struct TensorCut {
  int64_t dim = 0, groups = 1;

  bool operator==(const TensorCut &other) const { return dim == other.dim && groups == other.groups; }
  bool operator!=(const TensorCut &other) const { return !(*this == other); }
};

/// How an operation computes on parts.
struct OpCut {
  llvm::SmallVector<std::optional<TensorCut>> operands, results; ///< none: whole on every rank
  llvm::SmallVector<unsigned> behind; ///< operands taken as they are: used behind the sum by all ranks alike, or summed
  double reducedBytes = 0;            ///< of tensors that are summed over the ranks
  /// The last rank's part may be filled up with zeros where `ranks` does not divide: nothing depends on them, and no
  /// gradient reaches them.
  bool bearsPadding = false;
};

/// A rank's part; null if there is none of equal parts. One group may be ragged: then of ceil(run / ranks).
mlir::RankedTensorType partType(mlir::RankedTensorType whole, TensorCut cut, int64_t ranks);
/// Do `ranks` equal parts make each run of it?
bool dividesEvenly(llvm::ArrayRef<int64_t> shape, TensorCut cut, int64_t ranks);

/// This rank's part of what all ranks have whole, and what all ranks have in parts as a whole.
mlir::Value slicePart(mlir::OpBuilder &builder, mlir::Location location, mlir::Value whole, TensorCut cut,
                      int64_t ranks);
mlir::Value gatherParts(mlir::OpBuilder &builder, mlir::Location location, mlir::Value part, TensorCut cut,
                        int64_t ranks);
/// This rank's part of the sum of what each rank has.
mlir::Value scatterSum(mlir::OpBuilder &builder, mlir::Location location, mlir::Value addend, TensorCut cut,
                       int64_t ranks);

/// Shardable's answers for any op: also what is elementwise has some.
std::optional<OpCut> cutAlong(mlir::Operation *op, unsigned index, TensorCut cut, int64_t ranks, std::string &why);
llvm::SmallVector<mlir::Value> buildParts(mlir::OpBuilder &builder, mlir::Operation *op, const OpCut &cut,
                                          mlir::ValueRange operands, int64_t ranks);

} // namespace zc::graph
