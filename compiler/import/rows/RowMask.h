//===- RowMask.h - which rows of a dimension count ---------------------------------===//
//
// x[mask] has as many rows as the data says, a plan's shapes are fixed: all rows stay, and a mask says which of them
// count. Masks are compared by where they come from, so that what exporters write differently of one mask
// (expanded over the elements of rows, flattened, transposed) is one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace zc::graph {
class TensorBuilder;
}

namespace zc::importer {

/// Of a dimension: row-major runs over elements of `root`, a bool tensor. Null: all rows count.
struct RowMask {
  /// `stride` in elements of the root; 0: an element for all of the run.
  struct Run {
    int64_t size, stride;
    bool operator==(const Run &other) const { return size == other.size && stride == other.stride; }
  };
  mlir::Value root;
  llvm::SmallVector<Run> runs;

  explicit operator bool() const { return bool(root); }
  int64_t size() const;
};
using RowMasks = llvm::SmallVector<RowMask>; ///< one a dimension

/// The elements of a bool tensor, row-major, as one dimension.
RowMask maskOf(mlir::Value condition);
/// Do they count the same rows: of one value, or of two that the same operations compute from the same?
bool areSame(const RowMask &a, const RowMask &b);
/// Those of a tensor `from` under the shape `to`; nothing, and `why`, where rows would be taken apart.
std::optional<RowMasks> reshaped(llvm::ArrayRef<RowMask> masks, llvm::ArrayRef<int64_t> from,
                                 llvm::ArrayRef<int64_t> to, std::string &why);
/// As a bool tensor with a dimension for each run, of 1 where it is repeated.
mlir::Value buildMask(graph::TensorBuilder &on, const RowMask &mask);

} // namespace zc::importer
