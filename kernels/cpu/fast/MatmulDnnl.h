//===- MatmulDnnl.h - bf16 products through oneDNN ----------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"

namespace zc::cpu {

/// One product, or `batches` of equal stride, of bf16 operands with fp32 sums; plain layouts. Null for other operands,
/// where oneDNN has no optimised kernel (CPUs without AVX-512), and where it has none that does with the step's
/// workspace, however few threads it has.
class MatmulDnnl {
public:
  virtual ~MatmulDnnl() = default;
  /// `bias` only if prepared with one; `operands` are the step's.
  virtual Status run(const void *lhs, const void *rhs, const void *bias, void *out, void *const *operands) = 0;
};

/// How a product is to be made.
struct DnnlProduct {
  int64_t batches = 1;
  DType result = DType::bf16; ///< or f32
  bool accumulates = false;   ///< adds to what `out` holds
  bool packs = false;         ///< rearranges the right factor into the workspace, as the library likes it best
};

/// `note`: Kernel::note, or why there is none.
std::unique_ptr<MatmulDnnl> prepareDnnl(const KernelSpec &spec, const MatmulShape &shape, DnnlProduct what,
                                        std::string &note);

} // namespace zc::cpu
