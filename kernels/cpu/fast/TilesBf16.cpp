// TilesBf16.h, in intrinsics: Highway 1.0 has no target with AVX512_BF16.
#include "kernels/cpu/fast/TilesBf16.h"

#include <hwy/targets.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

// GCC 12 takes the undefined vectors inside of its intrinsics for uninitialised ones.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define ZC_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace zc::cpu::bf16 {
namespace {

constexpr int kLanes = 16;
/// Rows, or columns of units, that packing asks for ahead of use: rows of a matrix are too far apart for the CPU to.
constexpr int64_t kAhead = 16;

/// Unit `u` of row `r` is at rows[r] + 4 * u of its own, or, in blocks, at rows[0] + 4 * (kRows * u + r).
template <int kVectors, bool kIsBlock>
ZC_BF16 void multiply(const char *const *rows, const uint32_t *panel, int64_t units, float *sums, int64_t stride,
                      bool adds) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm512_setzero_ps();
  const char *const p0 = rows[0], *const p1 = rows[1], *const p2 = rows[2], *const p3 = rows[3], *const p4 = rows[4],
                    *const p5 = rows[5], *const p6 = rows[6], *const p7 = rows[7];
  for (int64_t u = 0; u < units; ++u, panel += kVectors * kLanes) {
    __m512bh right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      right[v] = (__m512bh)_mm512_loadu_si512(panel + kLanes * v);
    const char *const row[kRows] = {p0, p1, p2, p3, p4, p5, p6, p7};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int pair;
      std::memcpy(&pair, kIsBlock ? p0 + 4 * (kRows * u + r) : row[r] + 4 * u, sizeof pair);
      const __m512bh left = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float *to = sums + r * stride + kLanes * v;
      _mm512_storeu_ps(to, adds ? _mm512_add_ps(_mm512_loadu_ps(to), sum[r][v]) : sum[r][v]);
    }
}

/// Pairs of elements [0, count) of two rows, the first's in the low halves; zeros beyond. `second` may be null: zeros.
ZC_BF16 __m512i pairs(const Bf16 *first, const Bf16 *second, int64_t count) {
  const auto mask = static_cast<__mmask16>(count >= kLanes ? 0xffff : (1 << count) - 1);
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first));
  if (!second)
    return low;
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second)), 16));
}

/// 16 x 16 units: row i becomes column i.
ZC_BF16 void transpose(__m512i (&x)[kLanes]) {
  __m512i t[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4)
    for (int j = 0; j < 2; ++j) {
      x[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
      x[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
    }
  // x[4 g + j] has, in its four quarters q, units 4 q + j of rows 4 g to 4 g + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88), b = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88);
    const __m512i c = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xdd), d = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(a, b, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(a, b, 0xdd);
    t[4 + j] = _mm512_shuffle_i32x4(c, d, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(c, d, 0xdd);
  }
  std::copy_n(t, kLanes, x);
}

/// Rows are terms.
ZC_BF16 void packRowsOfTerms(Matrix source, int64_t terms, int64_t columns, int64_t width, uint32_t *panel) {
  for (int64_t term = 0; term < terms; term += 2, panel += width) {
    const Bf16 *first = source.at + term * source.stride, *second = term + 1 < terms ? first + source.stride : nullptr;
    for (int64_t row = term + kAhead; row < std::min(terms, term + kAhead + 2); ++row)
      for (int64_t j = 0; j < width; j += 32)
        _mm_prefetch(source.at + row * source.stride + j, _MM_HINT_T0);
    for (int64_t j = 0; j < width; j += kLanes)
      _mm512_storeu_si512(panel + j, columns <= j ? _mm512_setzero_si512()
                                                  : pairs(first + j, second ? second + j : nullptr, columns - j));
  }
}

/// Rows are columns.
ZC_BF16 void packRowsOfColumns(Matrix source, int64_t terms, int64_t columns, int64_t width, uint32_t *panel) {
  const int64_t units = (terms + 1) / 2;
  for (int64_t j = 0; j < width; j += kLanes)
    for (int64_t u = 0; u < units; u += kLanes) {
      const int64_t present = std::min<int64_t>(terms - 2 * u, 2 * kLanes);
      const __mmask32 mask = present == 2 * kLanes ? ~__mmask32(0) : (__mmask32(1) << present) - 1;
      __m512i x[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        const Bf16 *from = source.at + (j + i) * source.stride + 2 * u;
        x[i] = j + i < columns ? _mm512_maskz_loadu_epi16(mask, from) : _mm512_setzero_si512();
        if (j + i + kLanes < columns)
          _mm_prefetch(from + kLanes * source.stride, _MM_HINT_T0);
      }
      transpose(x);
      for (int64_t i = 0; i < std::min<int64_t>(kLanes, units - u); ++i)
        _mm512_storeu_si512(panel + (u + i) * width + j, x[i]);
    }
}

} // namespace

bool hasTiles() { return (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16"); }

void multiplyTile(Rows left, const uint32_t *panel, int64_t width, int64_t units, float *sums, int64_t stride,
                  bool adds) {
  const char *rows[kRows];
  for (int64_t r = 0; r < kRows; ++r)
    rows[r] = left.at + r * left.rowStride;
  const bool isBlock = left.unitStride != 4, isNarrow = width == Bf16Blocks::kNarrowColumns;
  auto *by = isNarrow ? (isBlock ? multiply<2, true> : multiply<2, false>)
                      : (isBlock ? multiply<3, true> : multiply<3, false>);
  by(rows, panel, units, sums, stride, adds);
}

void packPanel(Matrix source, bool isTransposed, int64_t terms, int64_t columns, int64_t width, uint32_t *panel) {
  (isTransposed ? packRowsOfColumns : packRowsOfTerms)(source, terms, columns, width, panel);
}

void prefetchPanel(Matrix source, bool isTransposed, int64_t terms, int64_t columns, int64_t part, int64_t parts) {
  const int64_t rows = isTransposed ? columns : terms, bytes = 2 * (isTransposed ? terms : columns);
  for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
    const char *at = reinterpret_cast<const char *>(source.at + row * source.stride);
    for (int64_t i = 0; i < bytes; i += 64)
      __builtin_prefetch(at + i, 0, 2);
    __builtin_prefetch(at + bytes - 1, 0, 2);
  }
}

ZC_BF16 void packLeft(Matrix source, int64_t terms, int64_t rows, uint32_t *blocks, int64_t stride) {
  const int64_t units = (terms + 1) / 2;
  for (int64_t u = 0; u < units; ++u) {
    const Bf16 *first = source.at + 2 * u * source.stride,
               *second = 2 * u + 1 < terms ? first + source.stride : nullptr;
    for (int64_t row = 2 * u + kAhead; row < std::min(terms, 2 * u + kAhead + 2); ++row)
      for (int64_t i = 0; i < rows; i += 32)
        _mm_prefetch(source.at + row * source.stride + i, _MM_HINT_T0);
    for (int64_t i = 0; i < rows; i += kLanes) {
      const __m512i both = pairs(first + i, second ? second + i : nullptr, rows - i);
      uint32_t *block = blocks + i / kRows * stride + u * kRows;
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(block), _mm512_castsi512_si256(both));
      if (i + kRows < rows)
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(block + stride), _mm512_extracti64x4_epi64(both, 1));
    }
  }
}

void copyLeft(Matrix source, int64_t terms, int64_t rows, uint32_t *blocks, int64_t stride) {
  const int64_t units = (terms + 1) / 2;
  for (int64_t r = 0; r < roundUp(rows, kRows); ++r) {
    uint32_t *row = blocks + r / kRows * stride + r % kRows * units;
    row[units - 1] = 0;
    if (r < rows)
      std::memcpy(row, source.at + r * source.stride, static_cast<size_t>(terms) * sizeof(Bf16));
    else
      std::fill_n(row, units, 0);
  }
}

ZC_BF16 void roundTile(const float *sums, int64_t sumsStride, const Bf16 *bias, int64_t rows, int64_t columns,
                       Bf16 *out, int64_t stride) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    const auto mask = static_cast<__mmask16>(columns - j >= kLanes ? 0xffff : (1 << (columns - j)) - 1);
    __m512 shift = _mm512_setzero_ps();
    if (bias)
      shift =
          _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, bias + j)), 16));
    for (int64_t r = 0; r < rows; ++r) {
      const __m512 x = _mm512_maskz_loadu_ps(mask, sums + r * sumsStride + j);
      const __m256bh rounded = _mm512_cvtneps_pbh(bias ? _mm512_add_ps(x, shift) : x);
      _mm256_mask_storeu_epi16(out + r * stride + j, mask, (__m256i)rounded);
    }
  }
}

} // namespace zc::cpu::bf16
