// Sums over ranks of fp32 and of 16 bits, by vectors: what storing and reading 16 bits takes element by element is many
// times what memory takes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/OrderedSumVectors.cpp"
#include <hwy/foreach_target.h>

#include "kernels/OrderedSum.h"
#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Block by block, so that partial sums stay in the first-level cache while ranks are added one after the other.
template <typename In, typename Out> void sumBlocks(const OrderedSum &sum) {
  constexpr uint64_t kBlock = 1024;
  HWY_ALIGN float partial[kBlock];
  const V scale = hn::Set(kF, static_cast<float>(sum.scale));
  for (uint64_t start = 0; start < sum.elements; start += kBlock) {
    const auto n = static_cast<int64_t>(std::min(kBlock, sum.elements - start));
    auto inputOf = [&](int rank) { return static_cast<const In *>(sum.inputs[rank]) + sum.skip + start; };
    for (int rank = 0; rank + 1 < sum.ranks; ++rank)
      forVectors(0, n, [&, input = inputOf(rank)](int64_t i, size_t count) HWY_ATTR {
        const V x = loadPart(input + i, count);
        storePart(rank == 0 ? x : hn::Add(loadPart(partial + i, count), x), partial + i, count);
      });
    Out *output = static_cast<Out *>(sum.output) + start;
    forVectors(0, n, [&, input = inputOf(sum.ranks - 1)](int64_t i, size_t count) HWY_ATTR {
      V x = loadPart(input + i, count);
      if (sum.ranks > 1)
        x = hn::Add(loadPart(partial + i, count), x);
      if (sum.scale != 1)
        x = hn::Mul(x, scale);
      if (sum.accumulate)
        x = hn::Add(loadPart(output + i, count), rounded<Out>(x));
      storePart(x, output + i, count);
    });
  }
}

void sumFloats(const OrderedSum &sum) { sumBlocks<float, float>(sum); }
void sumBf16(const OrderedSum &sum) { sumBlocks<Bf16, Bf16>(sum); }
void sumBf16Wide(const OrderedSum &sum) { sumBlocks<Bf16, float>(sum); }
void sumF16(const OrderedSum &sum) { sumBlocks<F16, F16>(sum); }
void sumF16Wide(const OrderedSum &sum) { sumBlocks<F16, float>(sum); }

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(sumFloats);
HWY_EXPORT(sumBf16);
HWY_EXPORT(sumBf16Wide);
HWY_EXPORT(sumF16);
HWY_EXPORT(sumF16Wide);
} // namespace zc::cpu

bool zc::orderedSumByVectors(const OrderedSum &sum) {
  using namespace cpu;
  if ((hwy::SupportedTargets() & HWY_TARGETS) == 0)
    return false;
  const bool isSame = sum.inputType == sum.outputType, isWide = sum.outputType == DType::f32;
  if (sum.inputType == DType::f32 && isSame)
    HWY_DYNAMIC_DISPATCH(sumFloats)(sum);
  else if (sum.inputType == DType::bf16 && isSame)
    HWY_DYNAMIC_DISPATCH(sumBf16)(sum);
  else if (sum.inputType == DType::bf16 && isWide)
    HWY_DYNAMIC_DISPATCH(sumBf16Wide)(sum);
  else if (sum.inputType == DType::f16 && isSame)
    HWY_DYNAMIC_DISPATCH(sumF16)(sum);
  else if (sum.inputType == DType::f16 && isWide)
    HWY_DYNAMIC_DISPATCH(sumF16Wide)(sum);
  else
    return false;
  return true;
}
#endif
