#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/AttentionRows.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/AttentionRows.h"
#include "kernels/cpu/fast/Random-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Lanes of the vector at i that are below `end`.
HWY_INLINE M lanesBelow(int64_t i, int64_t end) {
  return hn::FirstN(kF, static_cast<size_t>(std::clamp<int64_t>(end - i, 0, static_cast<int64_t>(lanes()))));
}

void addBoolMask(const uint8_t *mask, bool isSplat, float scale, float *scores, int64_t n) {
  const V factor = hn::Set(kF, scale), lowest = hn::Set(kF, -std::numeric_limits<float>::infinity());
  const hn::Rebind<uint8_t, F> bytes;
  forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
    HWY_ALIGN uint8_t copy[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(copy, mask + (isSplat ? 0 : j), isSplat ? 1 : c);
    const auto bits = isSplat ? hn::Set(U(), copy[0]) : hn::PromoteTo(U(), hn::Load(bytes, copy));
    const V scaled = hn::Mul(loadPart(scores + j, c), factor);
    storePart(hn::IfThenElse(hn::RebindMask(kF, hn::Ne(bits, hn::Zero(U()))), scaled, lowest), scores + j, c);
  });
}

template <typename T> void addFloatMask(const T *mask, bool isSplat, float scale, float *scores, int64_t n) {
  const V factor = hn::Set(kF, scale), all = hn::Set(kF, n > 0 ? load(mask[0]) : 0);
  forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
    const V added = isSplat ? all : loadPart(mask + j, c);
    storePart(hn::Add(hn::Mul(loadPart(scores + j, c), factor), added), scores + j, c);
  });
}

void addMask(DType type, const void *mask, bool isSplat, float scale, float *scores, int64_t n) {
  if (type == DType::boolean)
    return addBoolMask(static_cast<const uint8_t *>(mask), isSplat, scale, scores, n);
  withFast(type, [&](auto tag) {
    addFloatMask(static_cast<const TypeOf<decltype(tag)> *>(mask), isSplat, scale, scores, n);
  });
}

void capRow(float scale, float cap, float *scores, float *growth, int64_t n) {
  const V inner = hn::Set(kF, scale / cap), outer = hn::Set(kF, cap), one = hn::Set(kF, 1);
  forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
    const V t = tanhV(hn::Mul(loadPart(scores + j, c), inner));
    storePart(hn::Mul(t, outer), scores + j, c);
    if (growth)
      storePart(hn::NegMulAdd(t, t, one), growth + j, c);
  });
}

float scaledTop(const float *scores, int64_t n, float scale) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  const auto step = static_cast<int64_t>(lanes());
  const V factor = hn::Set(kF, scale);
  V a = hn::Set(kF, lowest), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = hn::Max(a, hn::Mul(loadVector(scores + i), factor));
    b = hn::Max(b, hn::Mul(loadVector(scores + i + step), factor));
    c = hn::Max(c, hn::Mul(loadVector(scores + i + 2 * step), factor));
    d = hn::Max(d, hn::Mul(loadVector(scores + i + 3 * step), factor));
  }
  forVectors(i, n, [&](int64_t k, size_t count) HWY_ATTR {
    const V x = hn::Mul(loadPart(scores + k, count), factor);
    a = hn::Max(a, hn::IfThenElse(lanesBelow(k, n), x, hn::Set(kF, lowest)));
  });
  const float top = hn::GetLane(hn::MaxOfLanes(kF, hn::Max(hn::Max(a, b), hn::Max(c, d))));
  for (int64_t k = 0; top == lowest && k < n; ++k)
    if (std::isnan(scores[k] * scale))
      return std::numeric_limits<float>::quiet_NaN();
  return top;
}

// To bf16, nearest even, NaN stays NaN. Only where the CPU has AVX512_BF16 are products narrow, and with AVX-512 it is
// asked for by name: Highway 1.0 has no target with it, and its own way takes nine instructions where this takes one.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE void storeRounded(V v, Bf16 *to) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), halves);
}
/// Two vectors in one store: the product that reads them loads as much, which waits for stores of less.
HWY_INLINE void storeRounded(V a, V b, Bf16 *to) {
  __m512i both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a.raw), "v"(b.raw));
  _mm512_storeu_si512(to, both);
}
/// Rows to `first` and `second`, if they are not null, and pairs of a column to `pairs`.
HWY_INLINE void storePairs(V a, V b, Bf16 *first, Bf16 *second, float *pairs) {
  alignas(64) static constexpr uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both; // a's in the lower half
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a.raw), "v"(b.raw));
  if (first) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(first), _mm512_castsi512_si256(both));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(second), _mm512_extracti64x4_epi64(both, 1));
  }
  _mm512_storeu_si512(pairs, _mm512_permutexvar_epi16(_mm512_load_si512(order), both));
}
#else
HWY_INLINE void storeRounded(V v, Bf16 *to) { storeVector(v, to); }
HWY_INLINE void storePairs(V a, V b, Bf16 *first, Bf16 *second, float *pairs) {
  const auto low = roundedHalves(a), high = roundedHalves(b);
  if (first) {
    storeVector(a, first);
    storeVector(b, second);
  }
  storeVector(hn::BitCast(kF, hn::Or(hn::ShiftRight<16>(low), hn::And(high, hn::Set(U(), 0xffff0000)))), pairs);
}
#endif
HWY_INLINE void storeRounded(V v, float *to) { storeVector(v, to); }
#if HWY_TARGET > HWY_AVX3
HWY_INLINE void storeRounded(V a, V b, Bf16 *to) {
  storeRounded(a, to);
  storeRounded(b, to + lanes());
}
#endif
HWY_INLINE void storeRounded(V a, V b, float *to) {
  storeVector(a, to);
  storeVector(b, to + lanes());
}

template <typename T> float exponentiateTo(T *to, const ScoreRow &row, float scale, float top, const float *factors) {
  const V factor = hn::Set(kF, scale), shift = hn::Set(kF, top);
  const auto step = static_cast<int64_t>(lanes());
  auto e = [&](int64_t i) HWY_ATTR { return expV(hn::MulSub(loadVector(row.at + i), factor, shift)); };
  auto kept = [&](V x, int64_t i) HWY_ATTR { return factors ? hn::Mul(x, loadVector(factors + i)) : x; };
  V sums[4] = {hn::Zero(kF), hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
  int64_t i = 0;
  for (; i + 4 * step <= row.visible; i += 4 * step) {
    const V a = e(i), b = e(i + step), c = e(i + 2 * step), d = e(i + 3 * step);
    sums[0] = hn::Add(sums[0], a);
    sums[1] = hn::Add(sums[1], b);
    sums[2] = hn::Add(sums[2], c);
    sums[3] = hn::Add(sums[3], d);
    storeRounded(kept(a, i), kept(b, i + step), to + i);
    storeRounded(kept(c, i + 2 * step), kept(d, i + 3 * step), to + i + 2 * step);
  }
  for (; i < row.visible; i += step) {
    const M visible = lanesBelow(i, row.visible);
    const V x = hn::IfThenElseZero(visible, e(i));
    sums[0] = hn::Add(sums[0], x);
    storeRounded(hn::IfThenElseZero(visible, kept(x, i)), to + i);
  }
  for (; i < row.end; i += step)
    storeVector(hn::Zero(kF), to + i);
  return hn::GetLane(hn::SumOfLanes(kF, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

float exponentiateRow(const ScoreRow &row, float scale, float top, const float *factors, bool isNarrow) {
  return isNarrow ? exponentiateTo(reinterpret_cast<Bf16 *>(row.at), row, scale, top, factors)
                  : exponentiateTo(row.at, row, scale, top, factors);
}

const float *drawFactors(const DropoutNumbers &numbers, int64_t first, int64_t n, float *buffer) {
  const Bits threshold = hn::Set(U(), numbers.threshold);
  const V scale = hn::Set(kF, numbers.scale);
  auto factorOf = [&](Bits word)
                      HWY_ATTR { return hn::IfThenZeroElse(hn::RebindMask(kF, hn::Lt(word, threshold)), scale); };
  const int64_t blocks = (first % 4 + n + 3) / 4;
  for (int64_t i = 0; i < blocks; i += static_cast<int64_t>(lanes())) {
    const Blocks drawn = randomBlocks(numbers.key, first / 4 + i);
    hn::StoreInterleaved4(factorOf(drawn.words[0]), factorOf(drawn.words[1]), factorOf(drawn.words[2]),
                          factorOf(drawn.words[3]), kF, buffer + 4 * i);
  }
  return buffer + first % 4;
}

struct Slope {
  V p, slope, grown;
};
HWY_INLINE Slope slopeOf(const SlopeRow &row, int64_t j, V factor, V lse, V delta) {
  V p = expV(hn::MulSub(loadVector(row.scores + j), factor, lse));
  if (row.normal != 1)
    p = hn::Mul(p, hn::Set(kF, row.normal));
  V kept = p, grad = loadVector(row.slopes + j);
  if (row.factors) {
    const V factors = loadVector(row.factors + j);
    kept = hn::Mul(p, factors);
    grad = hn::Mul(grad, factors);
  }
  const V slope = hn::Mul(p, hn::Sub(grad, delta));
  const V grown = row.growth ? hn::Mul(slope, loadVector(row.growth + j)) : slope;
  if (j + static_cast<int64_t>(lanes()) <= row.visible)
    return {kept, slope, grown};
  const M visible = lanesBelow(j, row.visible);
  return {hn::IfThenElseZero(visible, kept), hn::IfThenElseZero(visible, slope), hn::IfThenElseZero(visible, grown)};
}
/// Of the vector at j.
HWY_INLINE void addSlope(const SlopeRow &row, int64_t j, V slope) {
  if (!row.sums || j >= row.visible)
    return;
  const auto count = static_cast<size_t>(std::min<int64_t>(row.visible - j, static_cast<int64_t>(lanes())));
  storePart(hn::Add(loadPart(row.sums + j, count), slope), row.sums + j, count);
}

/// Calls fn(j, first's, second's) for vectors up to `end`.
template <typename Fn>
HWY_INLINE void forSlopes(const SlopeRow &first, const SlopeRow &second, int64_t end, float scale, Fn fn) {
  const V factor = hn::Set(kF, scale), lse0 = hn::Set(kF, first.lse), lse1 = hn::Set(kF, second.lse),
          delta0 = hn::Set(kF, first.delta), delta1 = hn::Set(kF, second.delta);
  const int64_t visible = std::max(first.visible, second.visible);
  const Slope none{hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
  for (int64_t j = 0; j < end; j += static_cast<int64_t>(lanes())) {
    if (j >= visible) {
      fn(j, none, none);
      continue;
    }
    const Slope a = slopeOf(first, j, factor, lse0, delta0), b = slopeOf(second, j, factor, lse1, delta1);
    addSlope(first, j, a.slope);
    addSlope(second, j, b.slope);
    fn(j, a, b);
  }
}

void differentiateRows(const SlopeRow &first, const SlopeRow &second, int64_t end, float scale,
                       const SlopePairs *pairs) {
  if (!pairs)
    return forSlopes(first, second, end, scale, [&](int64_t j, Slope a, Slope b) HWY_ATTR {
      storeVector(a.p, first.scores + j);
      storeVector(b.p, second.scores + j);
      storeVector(a.grown, first.slopes + j);
      storeVector(b.grown, second.slopes + j);
    });
  auto *row0 = reinterpret_cast<Bf16 *>(pairs->rows), *row1 = reinterpret_cast<Bf16 *>(pairs->rows + pairs->rowStride);
  forSlopes(first, second, end, scale, [&](int64_t j, Slope a, Slope b) HWY_ATTR {
    const int64_t at = j / kTileColumns * pairs->panelStride + j % kTileColumns;
    storePairs(a.p, b.p, nullptr, nullptr, pairs->probabilities + at);
    storePairs(a.grown, b.grown, row0 + j, row1 + j, pairs->slopes + at);
  });
}

void storeScaledRow(DType type, const float *x, float factor, void *to, int64_t n) {
  const V f = hn::Set(kF, factor);
  withFast(type, [&](auto tag) {
    auto *y = static_cast<TypeOf<decltype(tag)> *>(to);
    forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(hn::Mul(loadPart(x + i, c), f), y + i, c); });
  });
}

/// Rows that are asked for before they are used.
constexpr int64_t kAhead = 16;

void dotsOfRows(DType type, const void *a, int64_t strideOfA, const void *b, int64_t strideOfB, int64_t rows, int64_t n,
                float *dots) {
  withFast(type, [&](auto tag) {
    const auto *x = static_cast<const TypeOf<decltype(tag)> *>(a), *y = static_cast<const TypeOf<decltype(tag)> *>(b);
    // Rows may be too far apart for the CPU to foresee.
    auto prefetch = [n](const auto *p) {
      for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof *p))
        __builtin_prefetch(p + i);
    };
    for (int64_t row = 0; row < rows; ++row, x += strideOfA, y += strideOfB) {
      if (row + kAhead < rows) {
        prefetch(x + kAhead * strideOfA);
        prefetch(y + kAhead * strideOfB);
      }
      dots[row] =
          sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR { return hn::Mul(loadPart(x + i, c), loadPart(y + i, c)); });
    }
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(addMask);
HWY_EXPORT(capRow);
HWY_EXPORT(scaledTop);
HWY_EXPORT(exponentiateRow);
HWY_EXPORT(drawFactors);
HWY_EXPORT(differentiateRows);
HWY_EXPORT(storeScaledRow);
HWY_EXPORT(dotsOfRows);

void maskScores(DType type, const void *mask, bool isSplat, float scale, float *scores, int64_t n) {
  HWY_DYNAMIC_DISPATCH(addMask)(type, mask, isSplat, scale, scores, n);
}
void capScores(float scale, float cap, float *scores, float *growth, int64_t n) {
  HWY_DYNAMIC_DISPATCH(capRow)(scale, cap, scores, growth, n);
}
float topOf(const float *scores, int64_t n, float scale) { return HWY_DYNAMIC_DISPATCH(scaledTop)(scores, n, scale); }
float exponentiate(const ScoreRow &row, float scale, float top, const float *factors, bool isNarrow) {
  return HWY_DYNAMIC_DISPATCH(exponentiateRow)(row, scale, top, factors, isNarrow);
}
const float *dropoutFactors(const DropoutNumbers &numbers, int64_t first, int64_t n, float *buffer) {
  return HWY_DYNAMIC_DISPATCH(drawFactors)(numbers, first, n, buffer);
}
void differentiate(const SlopeRow &first, const SlopeRow &second, int64_t end, float scale, const SlopePairs *pairs) {
  HWY_DYNAMIC_DISPATCH(differentiateRows)(first, second, end, scale, pairs);
}
void storeScaled(DType type, const float *x, float factor, void *to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(storeScaledRow)(type, x, factor, to, n);
}
void scaleInPlace(float *x, float factor, int64_t n) { storeScaled(DType::f32, x, factor, x, n); }
void dotRows(DType type, const void *a, int64_t strideOfA, const void *b, int64_t strideOfB, int64_t rows, int64_t n,
             float *dots) {
  HWY_DYNAMIC_DISPATCH(dotsOfRows)(type, a, strideOfA, b, strideOfB, rows, n, dots);
}

} // namespace zc::cpu
#endif
