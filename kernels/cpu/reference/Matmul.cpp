// matmul, matmul_part: three loops, sums in double.
#include "kernels/cpu/Tiles.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
namespace {

template <typename T> void multiply(const MatmulShape &s, const T *lhs, const T *rhs, const T *bias, T *out) {
  int64_t lhsRow = s.transLhs ? 1 : s.k, lhsStep = s.transLhs ? s.m : 1;
  int64_t rhsStep = s.transRhs ? 1 : s.n, rhsColumn = s.transRhs ? s.k : 1;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < s.k; ++k)
        sum += static_cast<double>(load(lhs[i * lhsRow + k * lhsStep])) * load(rhs[k * rhsStep + j * rhsColumn]);
      out[i * s.n + j] = storeSum<T>(sum + (bias ? load(bias[j]) : 0));
    }
}

Prepared prepareMatmul(const KernelSpec &spec) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Walk<2> batches(read->batch, {read->lhsStrides, read->rhsStrides});
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, batches](void *const *operands, const StepContext &) {
      T *out = as<T>(operands[s.hasBias ? 3 : 2]);
      batches.forEach([&](const Walk<2>::Offsets &at) {
        multiply(s, as<T>(operands[0]) + at[0], as<T>(operands[1]) + at[1], s.hasBias ? as<T>(operands[2]) : nullptr,
                 out);
        out += s.m * s.n;
      });
    });
  });
}

template <typename T, typename O>
void multiplyPart(const MatmulShape &s, const T *lhs, const T *rhs, const O *addend, O *out) {
  int64_t lhsRow = s.transLhs ? 1 : s.k, lhsStep = s.transLhs ? s.m : 1;
  int64_t rhsStep = s.transRhs ? 1 : s.n, rhsColumn = s.transRhs ? s.k : 1;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = addend ? static_cast<double>(load(addend[i * s.n + j])) : 0;
      for (int64_t k = 0; k < s.k; ++k)
        sum += static_cast<double>(load(lhs[i * lhsRow + k * lhsStep])) * load(rhs[k * rhsStep + j * rhsColumn]);
      out[i * s.n + j] = storeSum<O>(sum);
    }
}

Prepared prepareMatmulPart(const KernelSpec &spec) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->product.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([part = *read](void *const *operands, const StepContext &) {
      const T *lhs = as<T>(operands[0]), *rhs = as<T>(operands[1]);
      const void *addend = part.hasAddend ? operands[2] : nullptr;
      void *out = operands[part.hasAddend ? 3 : 2];
      if (part.out == part.product.dtype)
        multiplyPart(part.product, lhs, rhs, static_cast<const T *>(addend), as<T>(out));
      else
        multiplyPart(part.product, lhs, rhs, static_cast<const float *>(addend), as<float>(out));
    });
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

bool isSmall(const MatmulShape &s) {
  return isOrdered(static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k));
}
int64_t matmulBytes(const MatmulShape &whole) {
  const MatmulShape s = foldedBatch(whole);
  return productBytes({s, false, s.dtype, 0}, s.numBatches == 1 && isSmall(s));
}
/// The right factor of a product by tiles.
int64_t keptBytes(const MatmulShape &whole) {
  const MatmulShape s = foldedBatch(whole);
  const bool isByTiles = s.dtype == DType::bf16 && s.numBatches == 1 && !isSmall(s);
  return isByTiles ? Workspace::bytesOf<uint32_t>(Bf16Blocks::unitsOf(s)) : 0;
}
int64_t partBytes(const MatmulPartShape &part) {
  return productBytes(part, isOrdered(part.whole) && isSmall(part.product));
}

} // namespace

void addMatmul(KernelRegistry &registry) {
  registry.add("matmul", prepareMatmul,
               KernelTraits(bytesOf<readMatmul, matmulBytes>).keeping(1, bytesOf<readMatmul, keptBytes>));
  registry.add("matmul_part", prepareMatmulPart,
               KernelTraits(bytesOf<readMatmulPart, partBytes>).overwriting(InputSet(1) << 2)); // the addend
}

} // namespace zc::cpu
