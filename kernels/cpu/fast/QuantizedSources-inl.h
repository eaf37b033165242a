// Where the numbers of a block come from: memory, sums of quantized sources, an added residual. Each gives a chunk or a
// part of a vector at a time; included once per instruction set, see Simd-inl.h.
#if defined(ZC_QUANTIZED_SOURCES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_QUANTIZED_SOURCES_INL_H
#undef ZC_QUANTIZED_SOURCES_INL_H
#else
#define ZC_QUANTIZED_SOURCES_INL_H
#endif

#include "kernels/cpu/fast/QuantizedJobs.h"
#include "kernels/cpu/fast/QuantizedLanes-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Elements of a piece.
struct Block {
  int64_t begin, end;
};
HWY_INLINE Block blockOf(const QuantizedPiece &q, int64_t index) {
  const int64_t begin = index * q.block;
  return {begin, std::min(begin + q.block, q.elements)};
}

template <typename T> struct Loaded {
  const T *x;
  static constexpr int64_t kVectors = kInOrder;
  static constexpr bool isWords = false;

  HWY_INLINE void fill(int64_t i, Chunk &chunk) const {
    for (int64_t k = 0; k < kVectors; ++k)
      chunk.x[k] = loadVector(x + i + lanesOf(k));
  }
  HWY_INLINE V at(int64_t i, size_t count) const { return loadPart(x + i, count); }
  /// Memory brings a block that will be read soon.
  HWY_INLINE void ask(Block block) const {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t i = block.begin; i < block.end; i += kLine)
      __builtin_prefetch(x + i);
  }
};

/// The sum over sources in order, of one block. `words`: chunks are in the order of words (QuantizedLanes-inl.h).
template <int bits, bool words> struct Summed {
  const uint8_t *source;
  int64_t stride, sources, scaleAt; ///< `scaleAt`: where the block's scale lies in a piece
  static constexpr int64_t kVectors = words ? kPerWord : kInOrder;
  /// Bytes of each source that memory brings in the time it takes to answer.
  static constexpr size_t kAhead = bits == 8 ? 2048 : 1024;
  static constexpr bool isWords = words, isMixed = bits == 4 && !words;

  HWY_INLINE Decoder<bits> decoder(const uint8_t *piece) const {
    float scale;
    std::memcpy(&scale, piece + scaleAt, sizeof(scale));
    return Decoder<bits>(scale);
  }
  template <bool adds> HWY_INLINE void one(const uint8_t *piece, int64_t i, Chunk &sum) const {
    const Decoder<bits> decode = decoder(piece);
    __builtin_prefetch(piece + byteOf<bits>(i) + kAhead); // a chunk is a line
    if constexpr (words)
      return decodeWords<adds>(piece + byteOf<bits>(i), decode, sum);
#if HWY_TARGET == HWY_AVX3
    if constexpr (isMixed)
      return decodeMixed<adds>(piece + byteOf<bits>(i), decode, sum);
#endif
    for (int64_t k = 0; k < kVectors; ++k) {
      const V x = decode.at(piece, i + lanesOf(k), lanes());
      sum.x[k] = adds ? hn::Add(sum.x[k], x) : x;
    }
  }
  /// Where `isMixed`, in the order of decodeMixed().
  HWY_INLINE void fillMixed(int64_t i, Chunk &chunk) const {
    one<false>(source, i, chunk);
    for (int64_t s = 1; s < sources; ++s)
      one<true>(source + s * stride, i, chunk);
  }
  HWY_INLINE void fill(int64_t i, Chunk &chunk) const {
    fillMixed(i, chunk);
#if HWY_TARGET == HWY_AVX3
    if constexpr (isMixed)
      for (int64_t k = 0; k < kVectors; ++k)
        chunk.x[k] = inOrder(chunk.x[k]);
#endif
  }
  HWY_INLINE V at(int64_t i, size_t count) const {
    V sum = decoder(source).at(source, i, count);
    for (int64_t s = 1; s < sources; ++s)
      sum = hn::Add(sum, decoder(source + s * stride).at(source + s * stride, i, count));
    return sum;
  }
  /// Not for several streams: asking for those takes longer than it saves.
  HWY_INLINE void ask(Block) const {}
};
template <int bits, bool words = false, typename Job> HWY_INLINE auto summed(const Job &job, int64_t block) {
  return Summed<bits, words>{job.source, job.stride, job.sources, job.piece.scalesAt() + 4 * block};
}

template <typename T, typename Base> struct WithResidual {
  Base base;
  const T *residual;
  static constexpr int64_t kVectors = Base::kVectors;
  static constexpr bool isWords = false;

  HWY_INLINE void fill(int64_t i, Chunk &chunk) const {
    base.fill(i, chunk);
    for (int64_t k = 0; k < kVectors; ++k)
      chunk.x[k] = hn::Add(chunk.x[k], loadVector(residual + i + lanesOf(k)));
  }
  HWY_INLINE V at(int64_t i, size_t count) const { return hn::Add(base.at(i, count), loadPart(residual + i, count)); }
  HWY_INLINE void ask(Block block) const { base.ask(block); }
};

/// What was kept of a block of `Source` that begins at element `begin`.
template <typename Source> struct Kept {
  const float *x;
  int64_t begin;
  static constexpr int64_t kVectors = Source::kVectors;
  static constexpr bool isWords = Source::isWords;

  HWY_INLINE void fill(int64_t i, Chunk &chunk) const {
    for (int64_t k = 0; k < kVectors; ++k)
      chunk.x[k] = loadVector(x + (i - begin) + lanesOf(k));
  }
  HWY_INLINE V at(int64_t i, size_t count) const { return loadPart(x + (i - begin), count); }
};

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif
