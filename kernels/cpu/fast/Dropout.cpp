// dropout and its gradient: the words of a vector of the generator's blocks are the mask's bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Dropout.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Random-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Bytes of a mask from element `first` on, a multiple of 4; there is room for whole vectors of blocks.
void drawMask(const Words &key, uint32_t threshold, int64_t first, int64_t n, uint8_t *mask) {
  const Bits least = hn::Set(U(), threshold), one = hn::Set(U(), 1);
  auto kept = [&](Bits word) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(word, least), one); };
  for (int64_t i = 0; i < n; i += 4 * static_cast<int64_t>(lanes())) {
    const Blocks drawn = randomBlocks(key, (first + i) / 4);
    const Bits low = hn::Or(kept(drawn.words[0]), hn::ShiftLeft<8>(kept(drawn.words[1])));
    const Bits high = hn::Or(kept(drawn.words[2]), hn::ShiftLeft<8>(kept(drawn.words[3])));
    hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), U(), reinterpret_cast<uint32_t *>(mask + i));
  }
}

/// y = mask ? x scale : 0
template <typename T> void keep(const T *x, const uint8_t *mask, float scale, T *y, int64_t n) {
  const V factor = hn::Set(kF, scale);
  const hn::Rebind<uint8_t, F> bytes;
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    HWY_ALIGN uint8_t copy[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(copy, mask + i, c);
    const auto bits = hn::PromoteTo(U(), hn::Load(bytes, copy));
    const M isKept = hn::RebindMask(kF, hn::Ne(bits, hn::Zero(U())));
    storePart(hn::IfThenElseZero(isKept, hn::Mul(loadPart(x + i, c), factor)), y + i, c);
  });
}

void keepElements(DType type, const void *x, const uint8_t *mask, float scale, void *y, int64_t n) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    keep(static_cast<const T *>(x), mask, scale, static_cast<T *>(y), n);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cpu {
HWY_EXPORT(drawMask);
HWY_EXPORT(keepElements);

namespace {

/// Elements whose mask stays in the first cache between its drawing and its use; a multiple of a vector of blocks.
constexpr int64_t kPiece = 4096;

/// A part in runs of broken blocks, and a ratio of 1, are the plain kernel's.
bool isInBlocks(const DropoutShape &s) {
  const NumbersOfPart &part = s.numbers.part;
  return part.run % 4 == 0 && part.stride % 4 == 0 && s.ratio < 1;
}

/// fn(first element, number of elements, their mask) for pieces of the mask, which are written to `mask` too.
template <typename Fn>
void drawPieces(const DropoutShape &s, const StepContext &context, int threads, uint8_t *mask, Fn fn) {
  const RandomShape &numbers = s.numbers;
  const Words key = randomKey(numbers.id, context.step, context.micro, numbers.rank, numbers.seed);
  const auto threshold = static_cast<uint32_t>(dropoutThreshold(s.ratio));
  parallelRanges(threads, numbers.n, kPiece, [&](int64_t begin, int64_t end, int) {
    uint8_t drawn[kPiece];
    for (int64_t at = begin, n = 0; at < end; at += n) {
      n = std::min(kPiece, end - at);
      if (const int64_t run = numbers.part.run)
        n = std::min(n, run - at % run);
      HWY_DYNAMIC_DISPATCH(drawMask)(key, threshold, numbers.part.placeOf(at), n, drawn);
      std::copy_n(drawn, n, mask + at);
      fn(at, n, drawn);
    }
  });
}

Prepared prepareDropout(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || !isInBlocks(*read))
    return decline();
  return makeKernel([s = *read, size = sizeOf(read->dtype), threads = threadsFor(spec.threads, 4 * read->numbers.n)](
                        void *const *operands, const StepContext &context) {
    const auto scale = static_cast<float>(1 / (1 - s.ratio));
    const char *x = as<char>(operands[0]);
    char *y = as<char>(operands[1]);
    drawPieces(s, context, threads, as<uint8_t>(operands[2]), [&](int64_t at, int64_t n, const uint8_t *drawn) {
      HWY_DYNAMIC_DISPATCH(keepElements)(s.dtype, x + at * size, drawn, scale, y + at * size, n);
    });
  });
}

Prepared prepareDropoutMask(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropoutMask(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isInBlocks(*read))
    return decline();
  return makeKernel([s = *read, threads = threadsFor(spec.threads, 4 * read->numbers.n)](void *const *operands,
                                                                                         const StepContext &context) {
    drawPieces(s, context, threads, as<uint8_t>(operands[0]), [](int64_t, int64_t, const uint8_t *) {});
  });
}

Prepared prepareDropoutGrad(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropoutGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype))
    return decline();
  return makeKernel([s = *read, size = sizeOf(read->dtype),
                     threads = threadsFor(spec.threads, read->numbers.n)](void *const *operands, const StepContext &) {
    parallelRanges(threads, s.numbers.n, kPieceElements, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(keepElements)
      (s.dtype, as<char>(operands[0]) + begin * size, as<uint8_t>(operands[1]) + begin,
       static_cast<float>(1 / (1 - s.ratio)), as<char>(operands[2]) + begin * size, end - begin);
    });
  });
}

} // namespace

void addFastDropout(KernelRegistry &registry) {
  registry.add("dropout", prepareDropout);
  registry.add("dropout_mask", prepareDropoutMask);
  registry.add("dropout_grad", prepareDropoutGrad);
}

} // namespace zc::cpu
#endif
