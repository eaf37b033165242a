//===- PickedRows.h - x[mask], in shapes that are fixed -----------------------------===//
//
// Rows stay where they are. A selection by a mask of N elements keeps all N rows; what follows computes on all of them,
// and of each tensor is known along which dimensions only those rows count whose mask is true. A row that does not
// count has no effect: where an operation computes across rows, it gets its neutral element in their place; put back
// into a tensor, it leaves what is there. How a dimension goes through an operation is Shardable's answer (Cut.h).
//
// Nothing is lost and nothing is approximate; the price is work on rows that do not count.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/fold/Constants.h"
#include "compiler/import/rows/Places.h"

#include "base/Status.h"
#include "llvm/ADT/DenseMap.h"

namespace zc::importer {

/// A shape of which some numbers are counts of a mask's elements.
struct CountedShape {
  HostTensor padded;               ///< with the number of all rows for that of those that count
  llvm::SmallVector<bool> counted; ///< by element: is it a multiple of the count? Else it does not depend on it
  RowMask mask;
};

class PickedRows {
public:
  PickedRows(mlir::OpBuilder &builder, const Constants &constants) : builder(builder), constants(constants) {}

  /// Positions [rank, N] of all elements of a bool tensor, of which those count that are true (ONNX NonZero). They are
  /// known by what they stand for: operations on them are not folded.
  Result<mlir::Value> positions(mlir::Value condition, mlir::Location loc);

  bool isAny(mlir::ValueRange values) const {
    return !infos.empty() && llvm::any_of(values, [&](mlir::Value v) { return infos.count(v) != 0; });
  }
  /// Follows picked rows through `op`, which was just built: gives its operands neutral elements, or gives other values
  /// for its results. Errors: rows that do not count would have an effect.
  Result<llvm::SmallVector<mlir::Value>> follow(mlir::Operation *op);

  /// By dimension; empty: all rows of all dimensions count.
  llvm::ArrayRef<RowMask> masksOf(mlir::Value value) const;
  /// `made` has, in the same dimensions, the rows of `like`.
  void countAs(mlir::Value made, mlir::Value like);
  /// `made` was expanded to `shape`: its dimensions that are counts have the rows of the mask. False if they cannot.
  bool countAs(mlir::Value made, const CountedShape &shape);

  /// [rank] int64: the shape as a number: with the count of rows that count.
  mlir::Value shapeOf(mlir::Value value, mlir::Location loc);
  /// A value that counts of masks and constants determine; nothing if it is no such, or constant.
  std::optional<CountedShape> countedShape(mlir::Value value) const;

private:
  struct Info {
    RowMasks masks;
    std::optional<Places> places;
  };
  using Values = llvm::SmallVector<mlir::Value>;

  mlir::OpBuilder &builder;
  const Constants &constants;
  llvm::DenseMap<mlir::Value, Info> infos;
  llvm::SmallVector<std::pair<RowMask, mlir::Value>> built; ///< masks as buildMask makes them

  const RowMask *maskAt(mlir::Value value, int64_t dim) const;
  const Places *placesOf(mlir::Value value) const;
  mlir::Value builtOf(graph::TensorBuilder &on, const RowMask &mask);
  mlir::Value vectorOf(graph::TensorBuilder &on, const RowMask &mask);
  mlir::Value chosen(graph::TensorBuilder &on, const RowMask &mask, int64_t dim, mlir::Value yes, mlir::Value no);
  mlir::Value count(graph::TensorBuilder &on, const RowMask &mask);
  mlir::Value replaced(graph::TensorBuilder &on, mlir::Value value, int64_t dim, const RowMask &mask, double by);
  bool isUniform(mlir::Value value, int64_t dim, int depth = 4) const;
  std::optional<HostTensor> evaluate(mlir::Value value, std::optional<int64_t> rows, RowMask &mask, int &budget) const;

  // Picks.cpp: rows by position
  Result<Values> pick(mlir::Operation *op, mlir::Value data, mlir::Value indices, const Place &place, int64_t axis);
  Result<Values> put(mlir::Operation *op, mlir::Value data, mlir::Value indices, mlir::Value updates,
                     const Place &place, int64_t axis, ScatterReduction reduction);
  Result<std::optional<Values>> followPositions(mlir::Operation *op);
  std::optional<Places> placesThrough(mlir::Operation *op) const;
  std::optional<Places> placesJoined(mlir::Operation *op, int64_t axis, const Places &first) const;
  std::optional<Places> placesComputed(mlir::Operation *op, const Places &first) const;

  // Follow.cpp: what computes with rows
  struct Across;
  Status followDimension(mlir::Operation *op, unsigned index, int64_t dim, Across &across);
  Result<Values> followMean(mlir::Operation *op);
  Status followCrossEntropy(mlir::Operation *op);
  Status followReshape(mlir::Operation *op);
  void replaceOperand(mlir::Operation *op, unsigned index, double by);
  void neutralizeIndices(mlir::Operation *op);
  void guardShared(mlir::Operation *op);
};

/// What the importer says where rows that do not count would have an effect.
Error rowsError(mlir::Operation *op, const llvm::Twine &what, llvm::StringRef help = {});

} // namespace zc::importer
