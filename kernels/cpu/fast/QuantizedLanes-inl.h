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

/// Numbers up to 2^22 in size, rounded to nearest even integers: those are in the low bits of the sum.
constexpr float kRounder = 12582912.0f; // 1.5 * 2^23
HWY_INLINE VU integersOf(V sums) { return hn::BitCast(U(), sums); }
HWY_INLINE V roundedOf(V sums) { return hn::Sub(sums, hn::Set(kF, kRounder)); }

#if HWY_TARGET == HWY_SCALAR // one lane: half a byte at a time

HWY_INLINE VU loadWords(const uint8_t *from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return hn::Set(U(), word);
}
HWY_INLINE void storeWords(VU words, uint8_t *to) {
  const uint32_t word = hn::GetLane(words);
  std::memcpy(to, &word, sizeof(word));
}
HWY_INLINE void storeBytes(VU values, uint8_t *to) { *to = static_cast<uint8_t>(hn::GetLane(values)); }
HWY_INLINE void storePairs(VU values, uint8_t *to, int64_t i) {
  const unsigned low = hn::GetLane(values) & 15;
  *to = static_cast<uint8_t>(i % 2 ? (*to & 15) | low << 4 : low);
}
HWY_INLINE V loadPairs(const uint8_t *from, int64_t i, V unit) {
  const int value = ((i % 2 ? *from >> 4 : *from & 15) ^ 8) - 8;
  return hn::Mul(hn::Set(kF, static_cast<float>(value)), unit);
}

#else // pairs of lanes, seen as numbers of 64 bits; the first is at an even element

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
HWY_INLINE void storePairs(VU values, uint8_t *to, int64_t) {
  _mm_storel_epi64(reinterpret_cast<__m128i *>(to), _mm512_cvtepi64_epi8(pairsOf(values).raw));
}

#else

HWY_INLINE void storeBytes(VU values, uint8_t *to) {
  const hn::Rebind<uint8_t, U> bytes;
  hn::StoreU(hn::TruncateTo(bytes, values), bytes, to);
}
HWY_INLINE void storePairs(VU values, uint8_t *to, int64_t) {
  const auto pairs = pairsOf(values);
  const hn::Rebind<uint8_t, hn::RepartitionToWide<U>> bytes;
  hn::StoreU(hn::TruncateTo(bytes, pairs), bytes, to);
}
HWY_INLINE V loadPairs(const uint8_t *from, int64_t, V unit) {
  const hn::RepartitionToWide<U> wide;
  const hn::Rebind<uint8_t, decltype(wide)> bytes;
  const hn::Rebind<uint32_t, decltype(wide)> words;
  const auto pairs = hn::PromoteTo(wide, hn::PromoteTo(words, hn::LoadU(bytes, from)));
  // Four bits to the top of each lane; what lies below them is shifted out, with the sign extended.
  const auto tops = hn::Or(hn::ShiftLeft<28>(pairs), hn::ShiftLeft<56>(pairs));
  return hn::Mul(hn::ConvertTo(kF, hn::ShiftRight<28>(hn::BitCast(I(), tops))), unit);
}

#endif
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
    storePairs(values, to, i);
  if (!whole)
    std::memcpy(piece + byteOf<bits>(i), part, bits == 8 ? count : (count + 1) / 2);
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
  HWY_INLINE V pairs(const uint8_t *from, int64_t) const {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
    const __m512i halves = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
    return V{_mm512_permutexvar_ps(halves, unit.raw)};
  }
  /// The lowest value of each word.
  template <int shift> HWY_INLINE V ofWords(VU words) const {
    return V{_mm512_permutexvar_ps(hn::ShiftRight<shift>(words).raw, unit.raw)};
  }
#else
  V unit;
  HWY_INLINE explicit Decoder(float scale) : unit(hn::Set(kF, scale)) {}
  HWY_INLINE V pairs(const uint8_t *from, int64_t i) const { return loadPairs(from, i, unit); }
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
      return pairs(from, i);
    }
  }
};

#if HWY_TARGET == HWY_AVX3
/// int4 as bf16: what is looked up is rounded already, and a vector has twice as many.
struct HalvesDecoder {
  __m512i table;
  HWY_INLINE explicit HalvesDecoder(const Decoder<4> &decoder) {
    HWY_ALIGN Bf16 rounded[16];
    storeVector(decoder.unit, rounded);
    table = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i *>(rounded)));
  }
  /// 32 of them; the lookup takes five bits, the fifth does not matter.
  HWY_INLINE void store(const uint8_t *from, Bf16 *to) const {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
    const __m512i pairs = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(pairs, table));
  }
};
#endif

// Words: a vector of bytes as words of 32 bits holds a chunk of int4; value k of each word goes to vector k of the
// chunk. That is another order than memory's, but needs no unpacking.

template <bool adds, size_t... k>
HWY_INLINE void decodeWords(const uint8_t *from, const Decoder<4> &decoder, Chunk &sum, std::index_sequence<k...>) {
  const VU words = loadWords(from);
  if constexpr (adds)
    ((sum.x[k] = hn::Add(sum.x[k], decoder.template ofWords<4 * k>(words))), ...);
  else
    ((sum.x[k] = decoder.template ofWords<4 * k>(words)), ...);
}
/// Eight vectors of integersOf() sums of size below 8. A word is the number whose digits of base 16 they are, with 8
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
constexpr std::make_index_sequence<kPerWord> kEachVector{};

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif
