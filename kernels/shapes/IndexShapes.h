//===- IndexShapes.h - specs of scatters and of what runs along an axis, checked and read -------===//
//
// Every version of a kernel, on whatever processor, accepts the same specs: all read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Order.h"
#include "kernels/shapes/Support.h"

#include <cstring>

namespace zc::shapes {

/// Index in [-n, n) to [0, n); -1 if outside.
inline int64_t wrapped(int64_t index, int64_t n) {
  return index < -n || index >= n ? -1 : index < 0 ? index + n : index;
}

/// Operands: data, indices, updates, result. Over the indices' shape: offset of each index, and of data's element with
/// 0 for the coordinate along the axis, which has n elements.
struct ScatterElementsShape {
  ScatterReduction reduction;
  Walk<2> walk;
  int64_t n, axisStride;
};
Result<ScatterElementsShape> readScatterElements(const KernelSpec &spec);
/// Of both scatters: the result begins as operand 0, which it may lie over.
inline void copyData(const KernelSpec &spec, void *const *operands) {
  if (int64_t bytes = spec.operands[0].numBytes())
    std::memmove(operands[3], operands[0], static_cast<size_t>(bytes));
}

/// Operands: data, indices, updates, result: `tuples` of bounds.size() indices, each of a slice of `inner` elements.
struct ScatterNdShape {
  ScatterReduction reduction;
  Dims bounds;
  int64_t tuples, slices, inner; ///< slices: of the data
};
Result<ScatterNdShape> readScatterNd(const KernelSpec &spec);

/// A tensor as [outer, n, inner]: lines along n, inner elements apart.
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;

  Lines() = default;
  Lines(const Dims &dims, int64_t axis) : Lines(dims, static_cast<size_t>(axis), static_cast<size_t>(axis) + 1) {}
  /// Along the dimensions [begin, end).
  Lines(const Dims &dims, size_t begin, size_t end)
      : outer(product(dims, 0, begin)), n(product(dims, begin, end)), inner(product(dims, end, dims.size())) {}
  int64_t count() const { return outer * inner; }
  /// fn(offset of the line's first element here, in one of `count` elements per line).
  template <typename Fn> void forEach(int64_t count, Fn fn) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        fn(o * n * inner + i, o * count * inner + i);
  }
};
/// Operands: x, values, indices (i64); attribute k.
Result<Lines> readTopK(const KernelSpec &spec);
/// Operands: x, indices (i64).
Result<Lines> readArgMax(const KernelSpec &spec);
/// cumsum, cumprod. Operands: x, result.
Result<Lines> readCumulative(const KernelSpec &spec);

} // namespace zc::shapes
