//===- Places.h - tensors whose elements are positions of picked rows ---------------===//
#pragma once

#include "compiler/import/rows/RowMask.h"

namespace zc::importer {

/// A position computed from a row's index in the mask: offset + the sum of steps[d] * index[d].
struct Place {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> steps;
};

/// What is known of a tensor of positions (NonZero's, and what shape arithmetic makes of it).
struct Places {
  llvm::SmallVector<int64_t> shape; ///< of the mask
  int64_t along = -1;               ///< the dimension that lists several; -1: one for all elements of a row
  llvm::SmallVector<Place, 4> list;
};

/// One position of a tuple `list` into the leading dimensions of a tensor `shape`, as if these were one.
Place flattened(llvm::ArrayRef<Place> list, llvm::ArrayRef<int64_t> shape);

/// Positions that go over a dimension of data row-major, each as often as the mask has elements in the dimensions that
/// have no part in them.
struct PlaceGrid {
  llvm::SmallVector<int64_t> used;   ///< dimensions of the mask that make up the data's, outermost first
  llvm::SmallVector<int64_t> unused; ///< the others
};
std::optional<PlaceGrid> gridOf(const Place &place, llvm::ArrayRef<int64_t> shape, int64_t size);

/// data [.., size, ..] at the places along `axis`: [.., rows, ..].
mlir::Value takeAlong(graph::TensorBuilder &on, mlir::Value data, int64_t axis, llvm::ArrayRef<int64_t> shape,
                      const PlaceGrid &grid);
/// Rows [.., rows, ..] along `axis` laid over the data's dimension: [copies, .., size, ..], one copy for each element
/// of the dimensions without a part.
mlir::Value layOver(graph::TensorBuilder &on, mlir::Value rows, int64_t axis, llvm::ArrayRef<int64_t> shape,
                    const PlaceGrid &grid);

} // namespace zc::importer
