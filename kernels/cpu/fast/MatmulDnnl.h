//===- MatmulDnnl.h - bf16 products through oneDNN ----------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"

namespace zc::cpu {

/// One product, or `batches` of equal stride, of bf16 operands with fp32 sums; plain layouts. The primitive and its
/// scratch memory are made here. Null for other operands, and where oneDNN has no optimised kernel (CPUs without
/// AVX-512).
class MatmulDnnl {
public:
  virtual ~MatmulDnnl() = default;
  /// `bias` only if prepared with one.
  virtual Status run(const void *lhs, const void *rhs, const void *bias, void *out) = 0;
};

/// `result`: bf16, or f32; with `accumulates` the product is added to what `out` holds.
std::unique_ptr<MatmulDnnl> prepareDnnl(const MatmulShape &shape, int64_t batches, int threads,
                                        DType result = DType::bf16, bool accumulates = false);

} // namespace zc::cpu
