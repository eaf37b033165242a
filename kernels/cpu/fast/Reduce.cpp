// reduce_sum and reduce_mean over neighbouring dimensions: the leading ones (gradients of biases), the trailing ones,
// and those between (planes of channels-last tensors); or over leading ones and others (biases of channels-first ones).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Reduce.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>
#include <optional>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Columns [begin, end) of y = scale * sum over rows of x [rows, n], and of groups - 1 more such matrices `apart`
/// elements on, in blocks of rows so that the error grows with their number, not with the rows'. The order of additions
/// is the same for every column.
template <typename T>
void columns(const T *x, T *y, int64_t groups, int64_t apart, int64_t rows, int64_t n, int64_t begin, int64_t end,
             float scale) {
  constexpr int64_t kBlock = 64, kWidth = 256;
  // Pieces of rows are too short, and too far apart, for a CPU to see which come next.
  constexpr int64_t kAhead = 8, kLine = 64 / static_cast<int64_t>(sizeof(T)), kLarge = 1 << 20; // rows; elements; bytes
  const bool asks = groups * rows * n * static_cast<int64_t>(sizeof(T)) > kLarge;
  HWY_ALIGN float block[kWidth], total[kWidth];
  for (int64_t j0 = begin; j0 < end; j0 += kWidth) {
    const int64_t width = std::min(kWidth, end - j0);
    std::fill(total, total + width, 0.0f);
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
        std::fill(block, block + width, 0.0f);
        for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r) {
          for (int64_t j = 0; asks && j < width; j += kLine)
            __builtin_prefetch(x + g * apart + (r + kAhead) * n + j0 + j);
          forVectors(0, width, [&](int64_t j, size_t c) HWY_ATTR {
            storePart(hn::Add(loadPart(block + j, c), loadPart(x + g * apart + r * n + j0 + j, c)), block + j, c);
          });
        }
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

void columnSums(DType type, const void *x, void *y, int64_t groups, int64_t apart, int64_t rows, int64_t n,
                int64_t begin, int64_t end, float scale) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    columns(static_cast<const T *>(x), static_cast<T *>(y), groups, apart, rows, n, begin, end, scale);
  });
}
/// Rows [begin, end), with those of groups - 1 more matrices `apart` elements on.
void rowSums(DType type, const void *x, void *y, int64_t groups, int64_t apart, int64_t begin, int64_t end, int64_t n,
             float scale) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = begin; r < end; ++r) {
      double total = 0;
      for (int64_t g = 0; g < groups; ++g)
        total += static_cast<double>(rowSum(static_cast<const T *>(x) + g * apart + r * n, n));
      static_cast<T *>(y)[r] = store<T>(static_cast<float>(total) * scale);
    }
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/MoveShapes.h"

namespace zc::cpu {
HWY_EXPORT(columnSums);
HWY_EXPORT(rowSums);

namespace {

/// A tensor [groups, outer, reduced, kept] of which the first and the third dimension are summed.
struct Sums {
  int64_t groups, outer, reduced, kept;

  int64_t group() const { return outer * reduced * kept; }
};

/// None where other dimensions are summed: a second block of neighbours may only follow one of leading ones.
std::optional<Sums> sumsOf(const Dims &dims, const Dims &axes) {
  const size_t rank = dims.size();
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] >= static_cast<int64_t>(rank) || axes[i] <= (i == 0 ? -1 : axes[i - 1]))
      return std::nullopt;
  auto isAxis = [&](size_t d) { return std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end(); };
  auto skip = [&](size_t from, bool axis) {
    while (from < rank && isAxis(from) == axis)
      ++from;
    return from;
  };
  const size_t leading = skip(0, true), first = skip(leading, false), end = skip(first, true);
  if (axes.empty() || skip(end, false) != rank)
    return std::nullopt;
  if (first == rank) // the leading ones alone
    return Sums{1, 1, product(dims, 0, leading), product(dims, leading, rank)};
  return Sums{product(dims, 0, leading), product(dims, leading, first), product(dims, first, end),
              product(dims, end, rank)};
}

Prepared prepareReduce(const KernelSpec &spec, bool mean) {
  ZC_RETURN_IF_ERROR(readReduce(spec).status());
  const TensorType &in = spec.operands[0], &out = spec.operands[1];
  const std::optional<Sums> sums = sumsOf(in.dims, spec.getInts("axes"));
  if (!sums || !isFast(in.dtype) || in.dtype != out.dtype || in.numElements() == 0 ||
      sums->outer * sums->kept != out.numElements())
    return decline();
  const Sums s = *sums;
  const DType dtype = in.dtype;
  const float scale = mean ? 1 / static_cast<float>(s.groups * s.reduced) : 1;
  const int threads = threadsFor(spec.threads, in.numElements());
  return makeKernel([=](void *const *operands, const StepContext &) {
    const char *x = as<char>(operands[0]);
    char *y = as<char>(operands[1]);
    if (s.kept == 1)
      return parallelParts(threads, s.outer, 1, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(rowSums)(dtype, x, y, s.groups, s.group(), begin, end, s.reduced, scale);
      });
    if (s.outer == 1)
      return parallelParts(threads, s.kept, 16, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(columnSums)(dtype, x, y, s.groups, s.group(), s.reduced, s.kept, begin, end, scale);
      });
    parallelParts(threads, s.outer, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        HWY_DYNAMIC_DISPATCH(columnSums)
      (dtype, x + i * s.reduced * s.kept * sizeOf(dtype), y + i * s.kept * sizeOf(dtype), s.groups, s.group(),
       s.reduced, s.kept, 0, s.kept, scale);
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
