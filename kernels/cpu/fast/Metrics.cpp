// accumulate_gradient, and norm_partial: sums of squares of blocks of 64 in double vectors, in the plain kernel's
// order, so that the two agree bit for bit; each thread has an accumulator of its own, added as integers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Metrics.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/NormSum.h"
#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Eight partial sums of every eighth element, then pairs. Squares are exact in double, so fused or not is the same.
template <typename T> HWY_INLINE double blockSum(const T *x) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> f;
  constexpr size_t kLanes = hn::MaxLanes(d), kVectors = 8 / kLanes;
  HWY_ALIGN float wide[kNormBlock];
  const float *values = wide;
  if constexpr (std::is_same_v<T, float>)
    values = x;
  else
    forVectors(0, kNormBlock, [&](int64_t i, size_t c) HWY_ATTR { storePart(loadPart(x + i, c), wide + i, c); });
  HWY_ALIGN double part[8];
  for (size_t v = 0; v < kVectors; ++v) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < kNormBlock; i += 8) {
      const auto value = hn::PromoteTo(d, hn::LoadU(f, values + i + static_cast<int64_t>(v * kLanes)));
      sum = hn::MulAdd(value, value, sum);
    }
    hn::Store(sum, d, part + v * kLanes);
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

void normRange(bool bf16, const void *x, int64_t begin, int64_t end, int64_t *limbs) {
  for (int64_t i = begin; i < end; i += kNormBlock)
    addToNorm(limbs, bf16 ? blockSum(static_cast<const Bf16 *>(x) + i) : blockSum(static_cast<const float *>(x) + i));
}

template <typename T> void addRange(const void *part, void *sum, int64_t begin, int64_t end) {
  const T *x = static_cast<const T *>(part);
  T *y = static_cast<T *>(sum);
  forVectors(begin, end, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Add(loadPart(y + i, c), loadPart(x + i, c)), y + i, c);
  });
}
void accumulateRange(bool bf16, const void *part, void *sum, int64_t begin, int64_t end) {
  (bf16 ? addRange<Bf16> : addRange<float>)(part, sum, begin, end);
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(normRange);
HWY_EXPORT(accumulateRange);

namespace {

Prepared prepareNormPartial(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  const TensorType &x = spec.operands[0], &acc = spec.operands[1];
  if (!isFast(x.dtype) || x.numElements() % kNormBlock != 0 || acc.dtype != DType::i64 ||
      acc.numElements() != kNormLimbs)
    return decline();
  int threads = threadsFor(spec.threads, x.numElements());
  return makeKernel([threads, n = x.numElements(), bf16 = x.dtype == DType::bf16, first = spec.getInt("first", 0) != 0,
                     parts = std::vector<int64_t>(static_cast<size_t>(threads * kNormLimbs))](
                        void *const *operands, const StepContext &) mutable {
    int64_t *limbs = as<int64_t>(operands[1]);
    if (first)
      std::fill(limbs, limbs + kNormLimbs, 0);
    std::fill(parts.begin(), parts.end(), 0);
    parallelParts(threads, n, kNormBlock, [&](int64_t begin, int64_t end, int part) {
      HWY_DYNAMIC_DISPATCH(normRange)(bf16, operands[0], begin, end, parts.data() + part * kNormLimbs);
    });
    for (size_t i = 0; i < parts.size(); ++i)
      limbs[i % kNormLimbs] += parts[i];
    normalizeNorm(limbs);
  });
}

Prepared prepareAccumulateGradient(const KernelSpec &spec) {
  if (spec.operands.size() != 2 || spec.numInputs != 1 || !isFast(spec.operands[0].dtype) ||
      spec.operands[0].dtype != spec.operands[1].dtype ||
      spec.operands[0].numElements() != spec.operands[1].numElements())
    return decline();
  int64_t n = spec.operands[0].numElements();
  bool bf16 = spec.operands[0].dtype == DType::bf16, restart = spec.getInt("restart", 0) != 0;
  return makeKernel([=, threads = threadsFor(spec.threads, n)](void *const *operands, const StepContext &context) {
    size_t size = bf16 ? sizeof(Bf16) : sizeof(float);
    parallelParts(threads, n, kNormBlock, [&](int64_t begin, int64_t end, int) {
      if (restart && context.micro == 0)
        std::memcpy(as<char>(operands[1]) + static_cast<size_t>(begin) * size,
                    as<char>(operands[0]) + static_cast<size_t>(begin) * size, static_cast<size_t>(end - begin) * size);
      else
        HWY_DYNAMIC_DISPATCH(accumulateRange)(bf16, operands[0], operands[1], begin, end);
    });
  });
}

} // namespace

void addFastMetrics(Overlay &overlay) {
  overlay.add("norm_partial", prepareNormPartial);
  overlay.add("accumulate_gradient", prepareAccumulateGradient);
}

} // namespace zc::cpu
#endif
