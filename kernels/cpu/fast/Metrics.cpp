// accumulate_gradient, and norm_partial: sums of squares of blocks of 64 in double vectors, in the plain kernel's
// order, so that the two agree bit for bit; each thread has an accumulator of its own, added as integers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Metrics.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"
#include "kernels/formula/NormSum.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// The sum of lanes: the upper half is added to the lower until one is left.
template <class D> HWY_INLINE double sumHalves(D, hn::Vec<D> sum) {
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return sumHalves(half, hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum)));
  }
  return hn::GetLane(sum);
}

template <class D> HWY_INLINE auto loadFloats(D f, const float *x) { return hn::LoadU(f, x); }
template <class D> HWY_INLINE auto loadFloats(D f, const Bf16 *x) {
  const hn::Rebind<uint16_t, D> half;
  const hn::RebindToUnsigned<D> u;
  const auto bits = hn::LoadU(half, reinterpret_cast<const uint16_t *>(x));
  return hn::BitCast(f, hn::ShiftLeft<16>(hn::PromoteTo(u, bits)));
}
template <class D> HWY_INLINE auto loadFloats(D f, const F16 *x) { return loadF16(f, x); }

/// Eight partial sums of every eighth element, then halves. Squares are exact in double, so fused or not is the same.
template <typename T> HWY_INLINE double blockSum(const T *x) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> f;
  constexpr size_t kLanes = hn::MaxLanes(d), kVectors = 8 / kLanes;
  hn::Vec<decltype(d)> sums[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    sums[v] = hn::Zero(d);
    for (int64_t i = 0; i < kNormBlock; i += 8) {
      const auto value = hn::PromoteTo(d, loadFloats(f, x + i + static_cast<int64_t>(v * kLanes)));
      sums[v] = hn::MulAdd(value, value, sums[v]);
    }
  }
  for (size_t half = kVectors / 2; half > 0; half /= 2)
    for (size_t v = 0; v < half; ++v)
      sums[v] = hn::Add(sums[v], sums[v + half]);
  return sumHalves(d, sums[0]);
}

template <typename T> void addBlocks(const T *x, int64_t begin, int64_t end, int64_t *limbs) {
  // A block's sum takes so many instructions that a CPU sees few lines ahead.
  constexpr int64_t kAhead = 8192, kLine = 64; // bytes
  NormBins bins;
  for (int64_t i = begin; i < end; i += kNormBlock) {
    for (int64_t byte = 0; byte < kNormBlock * static_cast<int64_t>(sizeof(T)); byte += kLine)
      __builtin_prefetch(reinterpret_cast<const char *>(x + i) + kAhead + byte);
    bins.add(limbs, blockSum(x + i));
  }
  bins.addTo(limbs);
}
void normRange(DType type, const void *x, int64_t begin, int64_t end, int64_t *limbs) {
  withFast(type, [&](auto tag) { addBlocks(static_cast<const TypeOf<decltype(tag)> *>(x), begin, end, limbs); });
}

template <typename T> void addRange(const void *part, void *sum, int64_t begin, int64_t end) {
  const T *x = static_cast<const T *>(part);
  T *y = static_cast<T *>(sum);
  forVectors(begin, end, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Add(loadPart(y + i, c), loadPart(x + i, c)), y + i, c);
  });
}
void accumulateRange(DType type, const void *part, void *sum, int64_t begin, int64_t end) {
  withFast(type, [&](auto tag) { addRange<TypeOf<decltype(tag)>>(part, sum, begin, end); });
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
  return makeKernel([threads, n = x.numElements(), dtype = x.dtype, first = spec.getInt("first", 0) != 0,
                     parts = std::vector<int64_t>(static_cast<size_t>(threads * kNormLimbs))](
                        void *const *operands, const StepContext &) mutable {
    int64_t *limbs = as<int64_t>(operands[1]);
    if (first)
      std::fill(limbs, limbs + kNormLimbs, 0);
    std::fill(parts.begin(), parts.end(), 0);
    parallelRanges(threads, n, kNormBlock, [&](int64_t begin, int64_t end, int thread) {
      HWY_DYNAMIC_DISPATCH(normRange)(dtype, operands[0], begin, end, parts.data() + thread * kNormLimbs);
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
  DType dtype = spec.operands[0].dtype;
  bool restart = spec.getInt("restart", 0) != 0;
  return makeKernel([=, threads = threadsFor(spec.threads, n)](void *const *operands, const StepContext &context) {
    auto size = static_cast<size_t>(sizeOf(dtype));
    parallelRanges(threads, n, kNormBlock, [&](int64_t begin, int64_t end, int) {
      if (restart && context.micro == 0)
        std::memcpy(as<char>(operands[1]) + static_cast<size_t>(begin) * size,
                    as<char>(operands[0]) + static_cast<size_t>(begin) * size, static_cast<size_t>(end - begin) * size);
      else
        HWY_DYNAMIC_DISPATCH(accumulateRange)(dtype, operands[0], operands[1], begin, end);
    });
  });
}

} // namespace

void addFastMetrics(KernelRegistry &registry) {
  registry.add("norm_partial", prepareNormPartial);
  registry.add("accumulate_gradient", prepareAccumulateGradient);
}

} // namespace zc::cpu
#endif
