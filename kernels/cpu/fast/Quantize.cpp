// Block quantization at memory speed. Blocks are worked on in groups that stay in the first-level cache: first the
// largest magnitude of each, then the scales of all of them at once (a division takes long, but not longer for many),
// then the values; where numbers must be computed (a sum over sources, an added residual) they are kept in between.
// The same bits as reference/Quantize.cpp: the largest magnitude is found as an integer, so that neither its order nor
// NaN matters.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Quantize.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/QuantizedSources-inl.h"

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kGroup = 16; ///< blocks at most

using VI = hn::Vec<I>;

// What chunks leave over of a block is done by functions of their own: copies of the sources go there, so that those of
// the chunks stay in registers.

HWY_INLINE VI sizeOf(V x) { return hn::And(hn::BitCast(I(), x), hn::Set(I(), 0x7fffffff)); }

template <typename Source> HWY_NOINLINE VI largestOfRest(const Source source, int64_t i, Block block, float *kept) {
  VI largest = hn::Zero(I());
  forVectors(i, block.end, [&](int64_t k, size_t count) HWY_ATTR {
    const V x = source.at(k, count);
    largest = hn::Max(largest, sizeOf(x));
    if (kept)
      hn::StoreU(x, kF, kept + (k - block.begin)); // `kept` has room for a whole vector at the end
  });
  return largest;
}

/// The largest magnitude of a block, among lanes, its bits as an integer: above infinity's for a NaN. Written to `kept`
/// if `keeps`.
template <bool keeps, typename Source> HWY_INLINE VI largestOf(const Source &source, Block block, float *kept) {
  VI a = hn::Zero(I()), b = a;
  const int64_t step = lanesOf(Source::kVectors);
  int64_t i = block.begin;
  for (; i + step <= block.end; i += step) {
    Chunk chunk;
    source.fill(i, chunk);
    for (int64_t k = 0; k < Source::kVectors; k += 2) {
      a = hn::Max(a, sizeOf(chunk.x[k]));
      b = hn::Max(b, sizeOf(chunk.x[k + 1]));
    }
    if constexpr (keeps)
      for (int64_t k = 0; k < Source::kVectors; ++k)
        hn::StoreU(chunk.x[k], kF, kept + (i - block.begin) + lanesOf(k));
  }
  if constexpr (!Source::isWords)
    if (i < block.end)
      a = hn::Max(a, largestOfRest(source, i, block, keeps ? kept : nullptr));
  return hn::Max(a, b);
}

/// bf16 is the upper half of fp32: twice as many at a time.
template <bool> HWY_INLINE VI largestOf(const Loaded<Bf16> &source, Block block, float *) {
  const hn::Repartition<uint16_t, F> d;
  const auto *x = reinterpret_cast<const uint16_t *>(source.x);
  const auto sizeBits = hn::Set(d, 0x7fff);
  auto a = hn::Zero(d), b = a;
  const int64_t step = lanesOf(2);
  int64_t i = block.begin;
  for (; i + 2 * step <= block.end; i += 2 * step) {
    a = hn::Max(a, hn::And(hn::LoadU(d, x + i), sizeBits));
    b = hn::Max(b, hn::And(hn::LoadU(d, x + i + step), sizeBits));
  }
  const VU pairs = hn::BitCast(U(), hn::Max(a, b));
  const VU low = hn::ShiftLeft<16>(pairs), high = hn::And(pairs, hn::Set(U(), 0xffff0000));
  const VI all = hn::Max(hn::BitCast(I(), low), hn::BitCast(I(), high));
  return i < block.end ? hn::Max(all, largestOfRest(source, i, block, nullptr)) : all;
}

#if HWY_TARGET == HWY_AVX3
HWY_INLINE __m512i largerHalves(__m512i a, __m512i b) {
  return _mm512_max_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}
/// The largest lanes of four vectors, within each quarter.
HWY_INLINE __m512i largestOfFour(const int32_t *vectors) {
  __m512i a[4];
  for (int k = 0; k < 4; ++k)
    a[k] = _mm512_load_si512(vectors + 16 * k);
  for (int k = 0; k < 2; ++k)
    a[k] =
        _mm512_max_epi32(_mm512_unpacklo_epi32(a[2 * k], a[2 * k + 1]), _mm512_unpackhi_epi32(a[2 * k], a[2 * k + 1]));
  return _mm512_max_epi32(_mm512_unpacklo_epi64(a[0], a[1]), _mm512_unpackhi_epi64(a[0], a[1]));
}
/// The largest lane of each of `count` vectors of 16.
HWY_INLINE void largestLanes(const int32_t *vectors, int64_t count, int32_t *largest) {
  const __m512i first = largestOfFour(vectors);
  if (count <= 4)
    return _mm512_store_si512(largest, largerHalves(largerHalves(first, first), largerHalves(first, first)));
  const __m512i low = largerHalves(first, largestOfFour(vectors + 64));
  const __m512i high = largerHalves(largestOfFour(vectors + 128), largestOfFour(vectors + 192));
  _mm512_store_si512(largest, largerHalves(low, high));
}
#endif

/// Of the blocks of a group.
struct Scales {
  HWY_ALIGN int32_t lanewise[kGroup * HWY_MAX_BYTES / 4] = {}; ///< a vector of largest magnitudes for each block
  HWY_ALIGN int32_t largest[kGroup + HWY_MAX_BYTES / 4] = {};
  HWY_ALIGN float scale[kGroup + HWY_MAX_BYTES / 4], inverse[kGroup + HWY_MAX_BYTES / 4];

  /// Scale and inverse from the largest magnitudes, as the plain kernel's.
  HWY_INLINE void compute(int64_t blocks, int bits) {
#if HWY_TARGET == HWY_AVX3
    largestLanes(lanewise, blocks, largest);
#else
    for (int64_t b = 0; b < blocks; ++b)
      largest[b] = hn::GetLane(hn::MaxOfLanes(I(), hn::Load(I(), lanewise + lanesOf(b))));
#endif
    const V most = hn::Set(kF, bits == 8 ? 127.0f : 7.0f);
    const auto infinity = hn::Set(I(), 0x7f800000);
    for (int64_t b = 0; b < blocks; b += static_cast<int64_t>(lanes())) {
      const VI sizes = hn::Load(I(), largest + b);
      const V x = hn::BitCast(kF, sizes), quotient = hn::Div(most, x);
      const auto isNumber = hn::Lt(sizes, infinity);
      const auto isUsed = hn::RebindMask(kF, hn::And(isNumber, hn::Lt(hn::BitCast(I(), quotient), infinity)));
      const V none = hn::IfThenElse(hn::RebindMask(kF, isNumber), hn::Zero(kF),
                                    hn::Set(kF, std::numeric_limits<float>::quiet_NaN()));
      hn::Store(hn::IfThenElse(isUsed, hn::Div(x, most), none), kF, scale + b);
      hn::Store(hn::IfThenElseZero(isUsed, quotient), kF, inverse + b);
    }
  }
};

/// Writes blocks. `T`: of the residual; void: there is none.
template <int bits, typename T> struct Writer {
  uint8_t *out;
  T *residual;
  float beta;
  static constexpr bool keepsError = !std::is_void_v<T>;

  HWY_INLINE void keepError(V error, int64_t i, size_t count) const {
    const V old = hn::Mul(hn::Set(kF, beta), loadPart(residual + i, count));
    storePart(hn::Add(old, hn::Mul(hn::Set(kF, 1 - beta), error)), residual + i, count);
  }

  /// A block whose values are not all 0.
  template <typename Source>
  HWY_INLINE void values(const Source &source, Block block, float scale, float inverse) const {
    const V factor = hn::Set(kF, inverse), unit = hn::Set(kF, scale);
    const int64_t step = lanesOf(Source::kVectors);
    int64_t i = block.begin;
    for (; i + step <= block.end; i += step) {
      Chunk chunk;
      source.fill(i, chunk);
      VU values[kPerWord];
      for (int64_t k = 0; k < Source::kVectors; ++k) {
        values[k] = integersOf(hn::Mul(chunk.x[k], factor));
        if constexpr (keepsError)
          keepError(hn::Sub(chunk.x[k], hn::Mul(roundedOf(values[k]), unit)), i + lanesOf(k), lanes());
      }
      if constexpr (Source::isWords)
        encodeWords(values, out + byteOf<bits>(i));
      else
        storeChunk<bits>(values, out, i);
    }
    if constexpr (!Source::isWords)
      if (i < block.end)
        rest(source, i, block.end, scale, inverse);
  }
  template <typename Source>
  HWY_NOINLINE void rest(const Source source, int64_t i, int64_t end, float scale, float inverse) const {
    const V factor = hn::Set(kF, inverse), unit = hn::Set(kF, scale);
    forVectors(i, end, [&](int64_t k, size_t count) HWY_ATTR {
      const V x = source.at(k, count);
      const VU values = integersOf(hn::Mul(x, factor));
      storeValues<bits>(values, out, k, count);
      if constexpr (keepsError)
        keepError(hn::Sub(x, hn::Mul(roundedOf(values), unit)), k, count);
    });
  }

  /// A block of zeros, or of numbers that have no scale: all values are 0, all of x is error.
  template <typename Source> HWY_NOINLINE void zeros(const Source source, Block block, float scale) const {
    const size_t from = byteOf<bits>(block.begin), to = byteOf<bits>(block.end + (bits == 4));
    std::memset(out + from, 0, to - from);
    if constexpr (keepsError) {
      const V none = hn::Mul(hn::Zero(kF), hn::Set(kF, scale));
      forVectors(block.begin, block.end,
                 [&](int64_t i, size_t count) HWY_ATTR { keepError(hn::Sub(source.at(i, count), none), i, count); });
    }
  }

  template <typename Source>
  HWY_INLINE void block(const Source &source, Block block, float scale, float inverse) const {
    if (inverse == 0)
      zeros(source, block, scale);
    else
      values(source, block, scale, inverse);
  }
};

/// Groups of whole blocks; `keeps`: the numbers of a group are kept.
template <int bits, typename T, bool keeps, typename SourceOf>
HWY_INLINE void quantizeGroups(const QuantizeJob &job, const SourceOf sourceOf) {
  HWY_ALIGN float kept[keeps ? kKept + HWY_MAX_BYTES / sizeof(float) : 1];
  const QuantizedPiece q = job.piece;
  const Writer<bits, T> writer{job.out, static_cast<T *>(job.residual), job.beta};
  // What is kept of a group is a small part of the first-level cache, so that the rest holds what memory has been asked
  // for; the short blocks of int4 need more of them, for the work that all share.
  constexpr int64_t kElements = keeps && bits == 8 ? 1024 : 2048;
  const int64_t group = std::clamp<int64_t>(kElements / q.block, 1, kGroup), last = job.last;
  Scales scales;
  for (int64_t first = job.first; first < last; first += group) {
    const int64_t count = std::min(group, last - first);
    for (int64_t b = 0; b < count; ++b) {
      float *keep = keeps ? kept + b * q.block : kept;
      hn::Store(largestOf<keeps>(sourceOf(first + b), blockOf(q, first + b), keep), I(), scales.lanewise + lanesOf(b));
    }
    scales.compute(count, bits);
    for (int64_t b = 0; b < count; ++b) {
      const auto source = sourceOf(first + b);
      const Block block = blockOf(q, first + b);
      if constexpr (!keeps) // memory works while this group is written
        if (const int64_t next = first + group + b; next < last)
          sourceOf(next).ask(blockOf(q, next));
      if constexpr (keeps)
        writer.block(Kept<std::decay_t<decltype(source)>>{kept + b * q.block, block.begin}, block, scales.scale[b],
                     scales.inverse[b]);
      else
        writer.block(source, block, scales.scale[b], scales.inverse[b]);
    }
    std::memcpy(job.out + q.scalesAt() + 4 * first, scales.scale, static_cast<size_t>(4 * count));
  }
}

/// Numbers that are computed with a residual of type T.
template <int bits, typename T, typename BaseOf>
HWY_INLINE void quantizeFed(const QuantizeJob &job, const BaseOf baseOf) {
  const T *residual = static_cast<const T *>(job.residual);
  quantizeGroups<bits, T, true>(
      job, [=](int64_t b) HWY_ATTR { return WithResidual<T, decltype(baseOf(b))>{baseOf(b), residual}; });
}

template <int bits> void quantizeSums(const QuantizeJob &job) {
  auto sums = [job](int64_t b) HWY_ATTR { return summed<bits>(job, b); };
  if (bits == 8 || job.piece.block % lanesOf(kPerWord) != 0)
    return quantizeGroups<bits, void, true>(job, sums);
  if constexpr (bits == 4) {
    // The last block may be short: not of whole words.
    QuantizeJob whole = job, rest = job;
    whole.last = rest.first = std::clamp(job.piece.elements / job.piece.block, job.first, job.last);
    quantizeGroups<bits, void, true>(whole, [job](int64_t b) HWY_ATTR { return summed<bits, true>(job, b); });
    quantizeGroups<bits, void, true>(rest, sums);
  }
}

template <int bits, typename T> void quantizeTyped(const QuantizeJob &job) {
  auto loaded = [x = static_cast<const T *>(job.plain)](int64_t) HWY_ATTR { return Loaded<T>{x}; };
  if (!job.residual)
    return quantizeGroups<bits, void, false>(job, loaded);
  if (!job.source)
    return quantizeFed<bits, T>(job, loaded);
  quantizeFed<bits, T>(job, [job](int64_t b) HWY_ATTR { return summed<bits>(job, b); });
}

void quantizeBlocks(DType type, const QuantizeJob &job) {
  const bool isByte = job.piece.bits == 8;
  if (job.source && !job.residual) // of no type
    return isByte ? quantizeSums<8>(job) : quantizeSums<4>(job);
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    isByte ? quantizeTyped<8, T>(job) : quantizeTyped<4, T>(job);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(quantizeBlocks);

namespace {

/// The bytes between values and scales.
void clearPadding(const QuantizeShape &s, uint8_t *out) {
  int64_t values = s.piece.bits == 8 ? s.piece.elements : s.piece.elements / 2 + s.piece.elements % 2;
  for (int64_t k = 0; k < s.pieces && values < s.piece.scalesAt(); ++k)
    std::memset(out + k * s.piece.bytes() + values, 0, static_cast<size_t>(s.piece.scalesAt() - values));
}

Prepared prepareQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (read->hasResidual && read->piece.block > kKept)
    return decline();
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    auto part = [&](void *tensor, int64_t k) {
      return as<char>(tensor) + s.grid.plainPiece(k) * s.piece.elements * sizeOf(s.dtype);
    };
    uint8_t *out = as<uint8_t>(operands[1]);
    clearPadding(s, out);
    forBlocks(s, threads, [&](int64_t k, int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(quantizeBlocks)
      (s.dtype, {s.piece, first, last, part(operands[0], k), nullptr, 0, 0,
                 s.hasResidual ? part(operands[2], k) : nullptr, s.beta, out + k * s.piece.bytes()});
    });
  });
}

Prepared prepareDequantizeSumQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSumQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (read->piece.block > kKept)
    return decline();
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    uint8_t *out = as<uint8_t>(operands[1]);
    clearPadding(s, out);
    forBlocks(s, threads, [&](int64_t k, int64_t first, int64_t last) {
      void *residual = s.hasResidual ? as<char>(operands[2]) + k * s.piece.elements * sizeOf(s.dtype) : nullptr;
      HWY_DYNAMIC_DISPATCH(quantizeBlocks)
      (s.dtype, {s.piece, first, last, nullptr, as<uint8_t>(operands[0]) + k * s.piece.bytes(),
                 s.pieces * s.piece.bytes(), s.sources, residual, s.beta, out + k * s.piece.bytes()});
    });
  });
}

} // namespace

void addFastQuantize(KernelRegistry &registry) {
  registry.add("quantize", prepareQuantize);
  registry.add("dequantize_sum_quantize", prepareDequantizeSumQuantize);
}

} // namespace zc::cpu
#endif
