// Block quantization at memory speed: a block is read twice, the second time from the first-level cache; where its
// numbers must be computed (a sum over sources, an added residual) they are kept there in between. The same bits as
// reference/Quantize.cpp: the largest magnitude is found as an integer, so that neither its order nor NaN matters.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Quantize.cpp"
#include <hwy/foreach_target.h>

#include "kernels/Quantized.h"
#include "kernels/cpu/fast/Simd-inl.h"

#ifndef ZC_FAST_QUANTIZE_JOB
#define ZC_FAST_QUANTIZE_JOB
namespace zc::cpu {
/// One block of one piece.
struct QuantizeJob {
  QuantizedPiece piece;
  int64_t begin, end;      ///< elements of the block within its piece
  const void *plain;       ///< the piece in f32 or bf16, or null
  const uint8_t *first;    ///< the piece of the first source, or null
  int64_t stride, sources; ///< bytes from source to source
  void *residual;          ///< of the piece, or null
  float beta;              ///< of the residual
  uint8_t *out;            ///< the quantized piece
};
/// A block that becomes plain numbers.
struct DequantizeJob {
  QuantizedPiece piece;
  int64_t begin, end;
  const uint8_t *first;
  int64_t stride, sources;
  void *out; ///< the piece in f32 or bf16
  bool isSum, accumulate;
  float scale;
};
} // namespace zc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

using VI = hn::Vec<I>;
using Bytes = hn::Rebind<int8_t, F>;

/// Blocks longer than this are computed twice instead of being kept.
constexpr int64_t kKept = 2048;

//===-- int4, two per byte -----------------------------------------------------===//

#if HWY_TARGET == HWY_SCALAR // one lane: half a byte at a time

HWY_INLINE void storePairs(VI value, uint8_t *to, int64_t i) {
  int low = hn::GetLane(value) & 15;
  *to = static_cast<uint8_t>(i % 2 ? *to | low << 4 : low);
}
HWY_INLINE VI loadPairs(const uint8_t *from, int64_t i) {
  return hn::Set(I(), ((i % 2 ? *from >> 4 : *from & 15) ^ 8) - 8);
}

#else // pairs of lanes, seen as numbers of 64 bits; the first is at an even element

HWY_INLINE void storePairs(VI values, uint8_t *to, int64_t) {
  const hn::RepartitionToWide<U> wide;
  const hn::Rebind<uint8_t, decltype(wide)> bytes;
  const auto pairs = hn::BitCast(wide, values);
  const auto low = hn::And(pairs, hn::Set(wide, 15)), high = hn::And(hn::ShiftRight<28>(pairs), hn::Set(wide, 0xf0));
  hn::StoreU(hn::TruncateTo(bytes, hn::Or(low, high)), bytes, to);
}
HWY_INLINE VI loadPairs(const uint8_t *from, int64_t) {
  const hn::RepartitionToWide<U> wide;
  const hn::Rebind<uint8_t, decltype(wide)> bytes;
  const hn::Rebind<uint32_t, decltype(wide)> words;
  const auto pairs = hn::PromoteTo(wide, hn::PromoteTo(words, hn::LoadU(bytes, from)));
  // Four bits to the top of each lane; what lies below them is shifted out, with the sign extended.
  const auto tops = hn::Or(hn::ShiftLeft<28>(pairs), hn::ShiftLeft<56>(pairs));
  return hn::ShiftRight<28>(hn::BitCast(I(), tops));
}

#endif

//===-- values of a piece ------------------------------------------------------===//

/// Lanes in [-127, 127] (int4: [-7, 7]) to `count` values of a piece, from element i on.
template <int bits> HWY_INLINE void storeValues(VI values, uint8_t *piece, int64_t i, size_t count) {
  HWY_ALIGN uint8_t part[HWY_MAX_BYTES] = {};
  const bool whole = count == lanes();
  uint8_t *to = whole ? piece + (bits == 8 ? i : i / 2) : part;
  if constexpr (bits == 8)
    hn::StoreU(hn::DemoteTo(Bytes(), values), Bytes(), reinterpret_cast<int8_t *>(to));
  else
    storePairs(values, to, i);
  if (!whole)
    std::memcpy(piece + (bits == 8 ? i : i / 2), part, bits == 8 ? count : (count + 1) / 2);
}

/// The opposite: values as fp32; unused lanes hold 0.
template <int bits> HWY_INLINE V loadValues(const uint8_t *piece, int64_t i, size_t count) {
  HWY_ALIGN uint8_t part[HWY_MAX_BYTES];
  const uint8_t *from = piece + (bits == 8 ? i : i / 2);
  if (count != lanes()) {
    std::memset(part, 0, sizeof(part));
    std::memcpy(part, from, bits == 8 ? count : (count + 1) / 2);
    from = part;
  }
  if constexpr (bits == 8)
    return hn::ConvertTo(kF, hn::PromoteTo(I(), hn::LoadU(Bytes(), reinterpret_cast<const int8_t *>(from))));
  else
    return hn::ConvertTo(kF, loadPairs(from, i));
}

/// A block's numbers, summed over sources in order; `at` is given elements of that block only.
template <int bits> struct Summed {
  const uint8_t *first;
  int64_t stride, sources, scale; ///< `scale`: where the block's scale lies in a piece
  HWY_INLINE V one(const uint8_t *piece, int64_t i, size_t count) const {
    float factor;
    std::memcpy(&factor, piece + scale, sizeof(factor));
    return hn::Mul(loadValues<bits>(piece, i, count), hn::Set(kF, factor));
  }
  HWY_INLINE V at(int64_t i, size_t count) const {
    V sum = one(first, i, count);
    for (int64_t s = 1; s < sources; ++s)
      sum = hn::Add(sum, one(first + s * stride, i, count));
    return sum;
  }
};
template <int bits>
HWY_INLINE Summed<bits> summed(const QuantizedPiece &q, int64_t begin, const uint8_t *first, int64_t stride,
                               int64_t sources) {
  return {first, stride, sources, q.scalesAt() + 4 * (begin / q.block)};
}

template <typename T> struct Loaded {
  const T *x;
  HWY_INLINE V at(int64_t i, size_t count) const { return loadPart(x + i, count); }
};
template <typename T, typename Base> struct WithResidual {
  Base base;
  const T *residual;
  HWY_INLINE V at(int64_t i, size_t count) const { return hn::Add(base.at(i, count), loadPart(residual + i, count)); }
};
/// What was kept of a block that starts at element `begin`.
struct Kept {
  const float *x;
  int64_t begin;
  HWY_INLINE V at(int64_t i, size_t count) const { return loadPart(x + (i - begin), count); }
};

/// The largest magnitude of a block, its bits as an integer: above infinity's for a NaN. Written to `kept` unless null.
template <typename Source> HWY_INLINE int32_t largestOf(const Source &source, int64_t begin, int64_t end, float *kept) {
  const I d;
  const auto sizeBits = hn::Set(d, 0x7fffffff);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  const auto step = static_cast<int64_t>(lanes());
  auto one = [&](int64_t i, size_t count) HWY_ATTR {
    const V x = source.at(i, count);
    if (kept)
      hn::StoreU(x, kF, kept + (i - begin)); // `kept` has room for a whole vector at the end
    return hn::And(hn::BitCast(d, x), sizeBits);
  };
  int64_t i = begin;
  for (; i + 4 * step <= end; i += 4 * step) {
    a = hn::Max(a, one(i, lanes()));
    b = hn::Max(b, one(i + step, lanes()));
    c = hn::Max(c, one(i + 2 * step, lanes()));
    e = hn::Max(e, one(i + 3 * step, lanes()));
  }
  forVectors(i, end, [&](int64_t k, size_t count) HWY_ATTR { a = hn::Max(a, one(k, count)); });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

/// Scale and its inverse, as the plain kernel's.
HWY_INLINE float scaleOf(int32_t largestBits, int bits, float &inverse) {
  const float most = bits == 8 ? 127.0f : 7.0f;
  float largest;
  std::memcpy(&largest, &largestBits, sizeof(largest));
  inverse = 0;
  if (!std::isfinite(largest))
    return std::numeric_limits<float>::quiet_NaN();
  const float quotient = most / largest;
  if (!std::isfinite(quotient))
    return 0;
  inverse = quotient;
  return largest / most;
}

template <int bits, typename T, typename Source>
HWY_INLINE void writeBlock(const QuantizeJob &job, const Source &source, float scale, float inverse) {
  T *residual = static_cast<T *>(job.residual);
  const V factor = hn::Set(kF, inverse), unit = hn::Set(kF, scale);
  const V beta = hn::Set(kF, job.beta), rest = hn::Set(kF, 1 - job.beta);
  forVectors(job.begin, job.end, [&](int64_t i, size_t count) HWY_ATTR {
    const V x = source.at(i, count);
    // A block of infinities or NaN has inverse 0; their product with it is no number.
    const VI values = inverse == 0 ? hn::Zero(I()) : hn::NearestInt(hn::Mul(x, factor));
    storeValues<bits>(values, job.out, i, count);
    if (residual) {
      const V error = hn::Sub(x, hn::Mul(hn::ConvertTo(kF, values), unit));
      const V old = loadPart(residual + i, count);
      storePart(hn::Add(hn::Mul(beta, old), hn::Mul(rest, error)), residual + i, count);
    }
  });
}

template <int bits, typename T, typename Source>
HWY_INLINE void quantizeFrom(const QuantizeJob &job, const Source &source, bool keeps) {
  HWY_ALIGN float kept[kKept + HWY_MAX_BYTES / sizeof(float)];
  keeps = keeps && job.end - job.begin <= kKept;
  float inverse;
  const float scale = scaleOf(largestOf(source, job.begin, job.end, keeps ? kept : nullptr), bits, inverse);
  if (keeps)
    writeBlock<bits, T>(job, Kept{kept, job.begin}, scale, inverse);
  else
    writeBlock<bits, T>(job, source, scale, inverse);
  std::memcpy(job.out + job.piece.scalesAt() + 4 * (job.begin / job.piece.block), &scale, sizeof(scale));
}

template <int bits, typename T> void quantizeTyped(const QuantizeJob &job) {
  auto feed = [&](const auto &source) HWY_ATTR {
    using Source = std::decay_t<decltype(source)>;
    if (job.residual)
      quantizeFrom<bits, T>(job, WithResidual<T, Source>{source, static_cast<const T *>(job.residual)}, true);
    else
      quantizeFrom<bits, T>(job, source, job.first != nullptr);
  };
  if (job.first)
    feed(summed<bits>(job.piece, job.begin, job.first, job.stride, job.sources));
  else
    feed(Loaded<T>{static_cast<const T *>(job.plain)});
}

void quantizeBlock(bool bf16, const QuantizeJob &job) {
  if (job.piece.bits == 8)
    bf16 ? quantizeTyped<8, Bf16>(job) : quantizeTyped<8, float>(job);
  else
    bf16 ? quantizeTyped<4, Bf16>(job) : quantizeTyped<4, float>(job);
}

template <int bits, typename T> void dequantizeTyped(const DequantizeJob &job) {
  T *out = static_cast<T *>(job.out);
  const auto source = summed<bits>(job.piece, job.begin, job.first, job.stride, job.sources);
  if (!job.isSum)
    return forVectors(job.begin, job.end, [&](int64_t i, size_t count) HWY_ATTR {
      storePart(source.one(job.first, i, count), out + i, count);
    });
  const V scale = hn::Set(kF, job.scale);
  forVectors(job.begin, job.end, [&](int64_t i, size_t count) HWY_ATTR {
    V sum = hn::Mul(source.at(i, count), scale);
    if (job.accumulate)
      sum = hn::Add(loadPart(out + i, count), sum);
    storePart(sum, out + i, count);
  });
}

void dequantizeBlock(bool bf16, const DequantizeJob &job) {
  if (job.piece.bits == 8)
    bf16 ? dequantizeTyped<8, Bf16>(job) : dequantizeTyped<8, float>(job);
  else
    bf16 ? dequantizeTyped<4, Bf16>(job) : dequantizeTyped<4, float>(job);
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Shapes.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(quantizeBlock);
HWY_EXPORT(dequantizeBlock);

namespace {

/// fn(piece, begin, end) for every block of every piece, shared among threads.
template <typename Fn> void forBlocks(const QuantizeShape &s, int threads, Fn fn) {
  int64_t blocks = s.piece.blocks();
  parallelParts(threadsFor(threads, s.pieces * s.piece.elements), s.pieces * blocks, 1,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t unit = begin; unit < end; ++unit) {
                    int64_t at = unit % blocks * s.piece.block;
                    fn(unit / blocks, at, std::min(at + s.piece.block, s.piece.elements));
                  }
                });
}

/// The bytes between values and scales.
void clearPadding(const QuantizeShape &s, uint8_t *out) {
  int64_t values = s.piece.bits == 8 ? s.piece.elements : s.piece.elements / 2 + s.piece.elements % 2;
  for (int64_t k = 0; k < s.pieces && values < s.piece.scalesAt(); ++k)
    std::memset(out + k * s.piece.bytes() + values, 0, static_cast<size_t>(s.piece.scalesAt() - values));
}

Prepared prepareQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    auto part = [&](void *tensor, int64_t k) {
      return as<char>(tensor) + s.order[static_cast<size_t>(k)] * s.piece.elements * sizeOf(s.dtype);
    };
    uint8_t *out = as<uint8_t>(operands[1]);
    clearPadding(s, out);
    forBlocks(s, threads, [&](int64_t k, int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(quantizeBlock)
      (s.dtype == DType::bf16, {s.piece, begin, end, part(operands[0], k), nullptr, 0, 0,
                                s.hasResidual ? part(operands[2], k) : nullptr, s.beta, out + k * s.piece.bytes()});
    });
  });
}

Prepared prepareDequantizeSumQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSumQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    uint8_t *out = as<uint8_t>(operands[1]);
    clearPadding(s, out);
    forBlocks(s, threads, [&](int64_t k, int64_t begin, int64_t end) {
      void *residual = s.hasResidual ? as<char>(operands[2]) + k * s.piece.elements * sizeOf(s.dtype) : nullptr;
      HWY_DYNAMIC_DISPATCH(quantizeBlock)
      (s.dtype == DType::bf16, {s.piece, begin, end, nullptr, as<uint8_t>(operands[0]) + k * s.piece.bytes(),
                                s.pieces * s.piece.bytes(), s.sources, residual, s.beta, out + k * s.piece.bytes()});
    });
  });
}

Prepared prepareDequantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    forBlocks(s, threads, [&](int64_t k, int64_t begin, int64_t end) {
      void *out = as<char>(operands[1]) + s.order[static_cast<size_t>(k)] * s.piece.elements * sizeOf(s.dtype);
      HWY_DYNAMIC_DISPATCH(dequantizeBlock)
      (s.dtype == DType::bf16,
       {s.piece, begin, end, as<uint8_t>(operands[0]) + k * s.piece.bytes(), 0, 1, out, false, false, 1});
    });
  });
}

Prepared prepareDequantizeSum(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSum(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
    bool adds = s.accumulate && context.micro > 0;
    forBlocks(s, threads, [&](int64_t, int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(dequantizeBlock)
      (s.dtype == DType::bf16,
       {s.piece, begin, end, as<uint8_t>(operands[0]), s.piece.bytes(), s.sources, operands[1], true, adds, s.scale});
    });
  });
}

} // namespace

void addFastQuantize(Overlay &overlay) {
  overlay.add("quantize", prepareQuantize);
  overlay.add("dequantize", prepareDequantize);
  overlay.add("dequantize_sum_quantize", prepareDequantizeSumQuantize);
  overlay.add("dequantize_sum", prepareDequantizeSum);
}

} // namespace zc::cpu
#endif
