//===- MatmulLayout.h - products as cuBLASLt wants them ---------------------------------------===//
//
// cuBLASLt's matrices are columns one after the other, ours are rows: a row-major X is its transpose there. So
// result^T = op(rhs)^T op(lhs)^T is asked for: A is rhs, B is lhs, and nothing is moved. No CUDA in here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Shapes.h"

namespace zc::cuda {

/// A matrix as it lies in memory: `columns` of `rows` elements, the next column begins `rows` later.
struct LtMatrix {
  int64_t rows, columns;
  int64_t batchStride; ///< elements from one to the next of a call
};

/// D = op(A) op(B), `batches` of them a call, one call for each of `calls`.
struct LtProduct {
  bool transA, transB;
  LtMatrix a, b, d;
  int32_t batches;
  /// Elements from the operands' beginnings to where a call's first matrices begin.
  struct Offsets {
    int64_t lhs, rhs, out;
  };
  std::vector<Offsets> calls; ///< empty where there is nothing to multiply or add
};

/// As few calls as strides allow.
LtProduct layoutOf(const shapes::MatmulShape &shape);

} // namespace zc::cuda
