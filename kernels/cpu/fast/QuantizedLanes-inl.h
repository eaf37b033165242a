// Values of quantized pieces (kernels/Quantized.h) in vectors of fp32; included once per instruction set, see
// Simd-inl.h.
#if defined(ZC_QUANTIZED_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_QUANTIZED_LANES_INL_H
#undef ZC_QUANTIZED_LANES_INL_H
#else
#define ZC_QUANTIZED_LANES_INL_H
#endif

#include "kernels/cpu/fast/Simd-inl.h"

#include <utility>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

using VU = hn::Vec<U>;

/// A word of 32 bits holds so many values of int4.
constexpr int64_t kPerWord = 8;
/// Vectors that are worked on together.
struct Chunk {
  V x[kPerWord];
};
HWY_INLINE HWY_MAYBE_UNUSED int64_t lanesOf(int64_t vectors) { return vectors * static_cast<int64_t>(lanes()); }

//===-- values to bytes --------------------------------------------------------===//

#if HWY_TARGET == HWY_AVX3 // whose integers packing can take

/// Numbers rounded to nearest even integers; in the low byte of each lane is what is stored.
HWY_INLINE VU integersOf(V x) { return VU{_mm512_cvtps_epi32(x.raw)}; }
HWY_INLINE V roundedOf(VU integers) { return V{_mm512_cvtepi32_ps(integers.raw)}; }

#else

/// Numbers up to 2^22 in size, rounded to nearest even integers: those are in the low bits of the sum.
constexpr float kRounder = 12582912.0f; // 1.5 * 2^23
HWY_INLINE VU integersOf(V x) { return hn::BitCast(U(), hn::Add(x, hn::Set(kF, kRounder))); }
HWY_INLINE V roundedOf(VU integers) { return hn::Sub(hn::BitCast(kF, integers), hn::Set(kF, kRounder)); }

#endif

// Pairs of lanes, seen as numbers of 64 bits; the first is at an even element.

HWY_INLINE VU loadWords(const uint8_t *from) {
  return hn::BitCast(U(), hn::LoadU(hn::Repartition<uint8_t, U>(), from));
}
HWY_INLINE void storeWords(VU words, uint8_t *to) {
  const hn::Repartition<uint8_t, U> bytes;
  hn::StoreU(hn::BitCast(bytes, words), bytes, to);
}
HWY_INLINE auto pairsOf(VU values) {
  const hn::RepartitionToWide<U> wide;
  const auto pairs = hn::BitCast(wide, values);
  return hn::Or(hn::And(pairs, hn::Set(wide, 15)), hn::And(hn::ShiftRight<28>(pairs), hn::Set(wide, 0xf0)));
}

#if HWY_TARGET == HWY_AVX3 // Highway's narrowing takes more instructions

HWY_INLINE void storeBytes(VU values, uint8_t *to) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(values.raw));
}
HWY_INLINE void storePairs(VU values, uint8_t *to) {
  _mm_storel_epi64(reinterpret_cast<__m128i *>(to), _mm512_cvtepi64_epi8(pairsOf(values).raw));
}

#else

HWY_INLINE void storeBytes(VU values, uint8_t *to) {
  const hn::Rebind<uint8_t, U> bytes;
  hn::StoreU(hn::TruncateTo(bytes, values), bytes, to);
}
HWY_INLINE void storePairs(VU values, uint8_t *to) {
  const auto pairs = pairsOf(values);
  const hn::Rebind<uint8_t, hn::RepartitionToWide<U>> bytes;
  hn::StoreU(hn::TruncateTo(bytes, pairs), bytes, to);
}

#endif

/// Where element i of a piece lies, i even or the values of 8 bits.
template <int bits> HWY_INLINE size_t byteOf(int64_t i) { return static_cast<size_t>(i) / (8 / bits); }

/// Lanes whose low bits are in [-127, 127] (int4: [-7, 7]) to `count` values of a piece, from element i on.
template <int bits> HWY_INLINE void storeValues(VU values, uint8_t *piece, int64_t i, size_t count) {
  HWY_ALIGN uint8_t part[HWY_MAX_BYTES] = {};
  const bool whole = count == lanes();
  uint8_t *to = whole ? piece + byteOf<bits>(i) : part;
  if constexpr (bits == 8)
    storeBytes(values, to);
  else
    storePairs(values, to);
  if (!whole)
    std::memcpy(piece + byteOf<bits>(i), part, bits == 8 ? count : (count + 1) / 2);
}

/// Vectors of a chunk in memory's order.
constexpr int64_t kInOrder = 4;

/// So many vectors, all of their lanes.
template <int bits> HWY_INLINE void storeChunk(const VU *values, uint8_t *piece, int64_t i) {
#if HWY_TARGET == HWY_AVX3
  // Packing works in quarters of a vector; each holds four values of each of the vectors then, as a word.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(values[0].raw, values[1].raw),
                                           _mm512_packs_epi32(values[2].raw, values[3].raw));
  uint8_t *to = piece + byteOf<bits>(i);
  if constexpr (bits == 8) {
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
  } else { // a pair is 1 times the one plus 16 times the other
    const __m512i halves = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    const __m512i pairs = _mm512_maddubs_epi16(halves, _mm512_set1_epi16(0x1001));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtepi16_epi8(_mm512_permutexvar_epi32(order, pairs)));
  }
#else
  for (int64_t k = 0; k < kInOrder; ++k)
    storeValues<bits>(values[k], piece, i + lanesOf(k), lanes());
#endif
}

//===-- bytes to values --------------------------------------------------------===//

/// Values of one block times its scale.
template <int bits> struct Decoder {
#if HWY_TARGET == HWY_AVX3
  // int4 has 16 values, and a vector has room for all their products: decoding is looking up. The lookup takes the low
  // four bits of each lane and ignores the others.
  V unit;
  HWY_INLINE explicit Decoder(float scale) {
    unit = hn::Set(kF, scale);
    if constexpr (bits == 4)
      unit = hn::Mul(V{_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1)}, unit);
  }
  HWY_INLINE V pairs(const uint8_t *from) const {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
    const __m512i halves = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
    return V{_mm512_permutexvar_ps(halves, unit.raw)};
  }
  HWY_INLINE V lookUp(__m512i halves) const { return V{_mm512_permutexvar_ps(halves, unit.raw)}; }
#else
  V unit;
  HWY_INLINE explicit Decoder(float scale) : unit(hn::Set(kF, scale)) {}
  HWY_INLINE V pairs(const uint8_t *from) const {
    const hn::RepartitionToWide<U> wide;
    const hn::Rebind<uint8_t, decltype(wide)> bytes;
    const hn::Rebind<uint32_t, decltype(wide)> words;
    const auto pairs = hn::PromoteTo(wide, hn::PromoteTo(words, hn::LoadU(bytes, from)));
    // Four bits to the top of each lane; what lies below them is shifted out, with the sign extended.
    const auto tops = hn::Or(hn::ShiftLeft<28>(pairs), hn::ShiftLeft<56>(pairs));
    return hn::Mul(hn::ConvertTo(kF, hn::ShiftRight<28>(hn::BitCast(I(), tops))), unit);
  }
  template <int shift> HWY_INLINE V ofWords(VU words) const {
    const auto tops = hn::BitCast(I(), hn::ShiftLeft<28 - shift>(words));
    return hn::Mul(hn::ConvertTo(kF, hn::ShiftRight<28>(tops)), unit);
  }
#endif
  /// `count` of them from element i of a piece on; unused lanes hold 0 values.
  HWY_INLINE V at(const uint8_t *piece, int64_t i, size_t count) const {
    HWY_ALIGN uint8_t part[HWY_MAX_BYTES];
    const uint8_t *from = piece + byteOf<bits>(i);
    if (count != lanes()) {
      std::memset(part, 0, sizeof(part));
      std::memcpy(part, from, bits == 8 ? count : (count + 1) / 2);
      from = part;
    }
    if constexpr (bits == 8) {
      const hn::Rebind<int8_t, F> bytes;
      const auto values = hn::PromoteTo(I(), hn::LoadU(bytes, reinterpret_cast<const int8_t *>(from)));
      return hn::Mul(hn::ConvertTo(kF, values), unit);
    } else {
      return pairs(from);
    }
  }
};

#if HWY_TARGET == HWY_AVX3
/// int4 as bf16 or f16: what is looked up is rounded already, and a vector has twice as many.
template <typename T> struct HalvesDecoder {
  __m512i table;
  HWY_INLINE explicit HalvesDecoder(const Decoder<4> &decoder) {
    HWY_ALIGN T rounded[16];
    storeVector(decoder.unit, rounded);
    table = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i *>(rounded)));
  }
  /// 32 of them; the lookup takes five bits, the fifth does not matter.
  template <bool streams> HWY_INLINE void store(const uint8_t *from, T *to) const {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
    const __m512i pairs = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
    const __m512i values = _mm512_permutexvar_epi16(pairs, table);
    if constexpr (streams)
      _mm512_stream_si512(reinterpret_cast<__m512i *>(to), values);
    else
      _mm512_storeu_si512(to, values);
  }
};
#endif

// Words: a vector of bytes as words of 32 bits holds a chunk of int4; value k of each word goes to vector k of the
// chunk. That is another order than memory's, but needs no unpacking.

#if HWY_TARGET == HWY_AVX3

/// A value is brought to the lowest bits by multiplying where that will do: shifts and lookups have the same two of the
/// processor's units, products have others. A product of 16 bits moves nothing into the lower half of a word.
template <bool adds> HWY_INLINE void decodeWords(const uint8_t *from, const Decoder<4> &decoder, Chunk &sum) {
  const __m512i words = _mm512_loadu_si512(from), upper = _mm512_srli_epi32(words, 16);
  auto add = [&](int k, __m512i halves) HWY_ATTR {
    const V x = decoder.lookUp(halves);
    sum.x[k] = adds ? hn::Add(sum.x[k], x) : x;
  };
  add(0, words);
  add(1, _mm512_mulhi_epu16(words, _mm512_set1_epi16(1 << 12)));
  add(2, _mm512_mulhi_epu16(words, _mm512_set1_epi16(1 << 8)));
  add(3, _mm512_mulhi_epu16(words, _mm512_set1_epi16(1 << 4)));
  add(4, upper);
  add(5, _mm512_mulhi_epu16(upper, _mm512_set1_epi16(1 << 12)));
  add(6, _mm512_mulhi_epu16(upper, _mm512_set1_epi16(1 << 8)));
  add(7, _mm512_mulhi_epu16(upper, _mm512_set1_epi16(1 << 4)));
}
/// Eight vectors of integers of size below 8.
HWY_INLINE void encodeWords(const VU *values, uint8_t *to) {
  // Quarters of a vector: four values of the one, four of the other, 16 bits each.
  __m512i halves[4];
  for (int k = 0; k < 4; ++k)
    halves[k] = _mm512_packs_epi32(values[k].raw, values[k + 4].raw);
  // a where the mask has ones, else b
  auto choose = [](int mask, __m512i a, __m512i b) HWY_ATTR {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(static_cast<short>(mask)), a, b, 0xca);
  };
  const __m512i high = choose(0x0f00, _mm512_slli_epi16(halves[2], 8), _mm512_slli_epi16(halves[3], 12));
  const __m512i low = choose(0x000f, halves[0], _mm512_slli_epi16(halves[1], 4));
  const __m512i all = choose(0x00ff, low, high);
  // The lower halves of four words, then the upper ones: put together.
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  _mm512_storeu_si512(to, _mm512_shuffle_epi8(all, order));
}

/// 16 values of int4 for each of four vectors. Within a vector the first eight lie at even lanes, the others at odd
/// ones, until `inOrder`.
template <bool adds> HWY_INLINE void decodeMixed(const uint8_t *from, const Decoder<4> &decoder, Chunk &sum) {
  const __m512i shifts = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  for (int64_t k = 0; k < kInOrder; ++k) {
    int64_t word;
    std::memcpy(&word, from + 8 * k, sizeof(word));
    const V x = decoder.lookUp(_mm512_srlv_epi32(_mm512_set1_epi64(word), shifts));
    sum.x[k] = adds ? hn::Add(sum.x[k], x) : x;
  }
}
HWY_INLINE V inOrder(V mixed) {
  return V{_mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), mixed.raw)};
}

#else

template <bool adds, size_t... k>
HWY_INLINE void decodeEach(const uint8_t *from, const Decoder<4> &decoder, Chunk &sum, std::index_sequence<k...>) {
  const VU words = loadWords(from);
  if constexpr (adds)
    ((sum.x[k] = hn::Add(sum.x[k], decoder.template ofWords<4 * k>(words))), ...);
  else
    ((sum.x[k] = decoder.template ofWords<4 * k>(words)), ...);
}
template <bool adds> HWY_INLINE void decodeWords(const uint8_t *from, const Decoder<4> &decoder, Chunk &sum) {
  decodeEach<adds>(from, decoder, sum, std::make_index_sequence<kPerWord>());
}
/// Eight vectors of integers of size below 8. A word is the number whose digits of base 16 they are, with 8
/// added to each digit so that none borrows; exclusive or takes the 8 away again, modulo 16.
HWY_INLINE void encodeWords(const VU *sums, uint8_t *to) {
  VU pairs[4], quads[2];
  for (int k = 0; k < 4; ++k)
    pairs[k] = hn::Add(sums[2 * k], hn::ShiftLeft<4>(sums[2 * k + 1]));
  for (int k = 0; k < 2; ++k)
    quads[k] = hn::Add(pairs[2 * k], hn::ShiftLeft<8>(pairs[2 * k + 1]));
  const VU digits = hn::Add(quads[0], hn::ShiftLeft<16>(quads[1]));
  // What roundedOf() subtracts from one sum, from all of them.
  uint32_t rounder;
  std::memcpy(&rounder, &kRounder, sizeof(rounder));
  const VU eights = hn::Set(U(), 0x88888888u);
  storeWords(hn::Xor(hn::Add(digits, hn::Set(U(), 0x88888888u - rounder * 0x11111111u)), eights), to);
}

#endif

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif
