//===- MatmulF32.h - fp32 products, cut over threads ----------------------------===//
#pragma once

#include "kernels/cpu/Products.h"
#include "kernels/cpu/fast/Gemm.h"

namespace zc::cpu {

/// fp32 products of one shape: single-threaded library products on what each thread has. Bits depend on the shape, the
/// number of threads and the choice.
class ProductF32 {
public:
  ProductF32(const KernelSpec &spec, const MatmulShape &shape, ProductChoice choice);

  /// out = op(lhs) op(rhs) + bias + beta out; `bias`: a row, or null. `operands` are the step's.
  void run(const float *lhs, const float *rhs, const float *bias, float beta, float *out, void *const *operands) const;

private:
  struct Block {
    int64_t i0, i1, j0, j1, k0, k1;
  };
  void multiply(const float *lhs, const float *rhs, float beta, float *out, const Block &block) const;
  void addBias(const float *bias, float *out, int64_t i0, int64_t i1, int64_t j0, int64_t j1) const;
  void byDepth(const float *lhs, const float *rhs, const float *bias, float beta, float *out,
               void *const *operands) const;

  MatmulShape s;
  GemmLibrary library;
  ProductCut cut;
  int threads;
  Piece<float> sums; ///< of threads that have terms, but the first's
};

std::unique_ptr<Kernel> makeMatmulF32(const KernelSpec &spec, const MatmulShape &shape, ProductChoice choice,
                                      std::string method);
std::unique_ptr<Kernel> makeMatmulPartF32(const KernelSpec &spec, const MatmulPartShape &shape, ProductChoice choice,
                                          std::string method);

} // namespace zc::cpu
