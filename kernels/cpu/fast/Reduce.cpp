// reduce_sum and reduce_mean over neighbouring dimensions: the leading ones (gradients of biases), the trailing ones,
// and those between (planes of channels-last tensors).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Reduce.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Columns [begin, end) of y = scale * sum over rows of x [rows, n], in blocks of rows so that the error grows with
/// their number, not with the rows'. The order of additions is the same for every column.
template <typename T> void columns(const T *x, T *y, int64_t rows, int64_t n, int64_t begin, int64_t end, float scale) {
  constexpr int64_t kBlock = 64, kWidth = 256;
  HWY_ALIGN float block[kWidth], total[kWidth];
  for (int64_t j0 = begin; j0 < end; j0 += kWidth) {
    const int64_t width = std::min(kWidth, end - j0);
    std::fill(total, total + width, 0.0f);
    for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
      std::fill(block, block + width, 0.0f);
      for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r)
        forVectors(0, width, [&](int64_t j, size_t c) HWY_ATTR {
          storePart(hn::Add(loadPart(block + j, c), loadPart(x + r * n + j0 + j, c)), block + j, c);
        });
      forVectors(0, width, [&](int64_t j, size_t c) HWY_ATTR {
        storePart(hn::Add(loadPart(total + j, c), loadPart(block + j, c)), total + j, c);
      });
    }
    for (int64_t j = 0; j < width; ++j)
      y[j0 + j] = store<T>(total[j] * scale);
  }
}

template <typename T> float rowSum(const T *x, int64_t n) {
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t i0 = 0; i0 < n; i0 += kBlock)
    total += static_cast<double>(
        sumVectors(std::min(kBlock, n - i0), [&](int64_t i, size_t c) HWY_ATTR { return loadPart(x + i0 + i, c); }));
  return static_cast<float>(total);
}

void columnSums(DType type, const void *x, void *y, int64_t rows, int64_t n, int64_t begin, int64_t end, float scale) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    columns(static_cast<const T *>(x), static_cast<T *>(y), rows, n, begin, end, scale);
  });
}
void rowSums(DType type, const void *x, void *y, int64_t begin, int64_t end, int64_t n, float scale) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = begin; r < end; ++r)
      static_cast<T *>(y)[r] = store<T>(rowSum(static_cast<const T *>(x) + r * n, n) * scale);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(columnSums);
HWY_EXPORT(rowSums);

namespace {

Prepared prepareReduce(const KernelSpec &spec, bool mean) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  const TensorType &in = spec.operands[0], &out = spec.operands[1];
  Dims axes = spec.getInts("axes");
  auto rank = static_cast<int64_t>(in.dims.size()), count = static_cast<int64_t>(axes.size());
  if (count == 0 || count > rank || !isFast(in.dtype) || in.dtype != out.dtype)
    return decline();
  for (int64_t i = 0; i < count; ++i)
    if (axes[static_cast<size_t>(i)] != axes[0] + i || axes[0] < 0 || axes[0] > rank - count)
      return decline();
  auto first = static_cast<size_t>(axes[0]), end = first + static_cast<size_t>(count);
  int64_t outer = product(in.dims, 0, first), reduced = product(in.dims, first, end),
          kept = product(in.dims, end, in.dims.size());
  if (in.numElements() == 0 || outer * kept != out.numElements())
    return decline();
  DType dtype = in.dtype;
  float scale = mean ? 1 / static_cast<float>(reduced) : 1;
  const bool isTrailing = end == in.dims.size();
  int threads = threadsFor(spec.threads, in.numElements());
  return makeKernel([=](void *const *operands, const StepContext &) {
    const char *x = as<char>(operands[0]);
    char *y = as<char>(operands[1]);
    if (isTrailing)
      return parallelParts(threads, outer, 1, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(rowSums)(dtype, x, y, begin, end, reduced, scale);
      });
    if (outer == 1)
      return parallelParts(threads, kept, 16, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(columnSums)(dtype, x, y, reduced, kept, begin, end, scale);
      });
    parallelParts(threads, outer, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        HWY_DYNAMIC_DISPATCH(columnSums)
      (dtype, x + i * reduced * kept * sizeOf(dtype), y + i * kept * sizeOf(dtype), reduced, kept, 0, kept, scale);
    });
  });
}

} // namespace

void addFastReduce(KernelRegistry &registry) {
  registry.add("reduce_sum", [](const KernelSpec &spec) { return prepareReduce(spec, false); });
  registry.add("reduce_mean", [](const KernelSpec &spec) { return prepareReduce(spec, true); });
}

} // namespace zc::cpu
#endif
