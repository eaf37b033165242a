// The factors and results of TilesBf16.h.
#include "kernels/cpu/fast/TilesBf16.h"
#include "kernels/cpu/fast/Avx512Bf16.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace zc::cpu::bf16 {
namespace {

/// Rows, or columns of units, that packing asks for ahead of use: rows of a matrix are too far apart for the CPU to.
constexpr int64_t kAhead = 16;

/// The rows of a unit, in a matrix whose rows are terms; null beyond them.
struct TermRows {
  const Bf16 *first, *second;
  TermRows(Matrix source, int64_t terms, int64_t unit)
      : first(2 * unit < terms ? source.at + 2 * unit * source.stride : nullptr),
        second(2 * unit + 1 < terms ? first + source.stride : nullptr) {}
};
/// Pairs of elements [i, i + count) of a unit's rows, the first's in the low halves; zeros beyond them.
ZC_BF16 __m512i pairs(TermRows rows, int64_t i, int64_t count) {
  if (!rows.first || count <= 0)
    return _mm512_setzero_si512();
  const __m512i low = lowHalves(rows.first + i, count);
  return rows.second ? _mm512_or_si512(low, _mm512_slli_epi32(lowHalves(rows.second + i, count), 16)) : low;
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

/// Asks for `count` elements of the rows that are kAhead behind a unit's.
void prefetchTerms(Matrix source, int64_t terms, int64_t unit, int64_t count) {
  for (int64_t row = 2 * unit + kAhead; row < std::min(terms, 2 * unit + kAhead + 2); ++row)
    for (int64_t j = 0; j < count; j += 32)
      _mm_prefetch(source.at + row * source.stride + j, _MM_HINT_T0);
}

/// Of 32 columns of both rows of a unit: the first 16's pairs, or the others'.
ZC_BF16 __m512i interleaved(TermRows rows, int64_t j, bool others) {
  alignas(64) static constexpr auto places = [] {
    std::array<std::array<uint16_t, 32>, 2> all{};
    for (size_t i = 0; i < 64; ++i)
      all[i / 32][i % 32] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
    return all;
  }();
  return _mm512_permutex2var_epi16(_mm512_loadu_si512(rows.first + j), _mm512_load_si512(places[others].data()),
                                   _mm512_loadu_si512(rows.second + j));
}

/// Rows are terms: of each, all panels' columns, which are in memory one after the other.
ZC_BF16 void packRowsOfTerms(const RightFactor &factor, const Panels &panels, int64_t first, int64_t last,
                             int64_t units, uint32_t *block) {
  const int64_t begin = panels[first].begin, end = panels[last - 1].begin + panels[last - 1].width;
  for (int64_t u = 0; u < units; ++u) {
    const TermRows rows(factor.source, factor.terms, u);
    prefetchTerms({factor.source.at + begin, factor.source.stride}, factor.terms, u, end - begin);
    for (int64_t index = first; index < last; ++index) {
      const Panel panel = panels[index];
      const int64_t present = panels.present(index);
      uint32_t *to = block + panel.begin * units + u * panel.width;
      int64_t j = 0;
      for (; rows.second && j + 2 * kLanes <= present; j += 2 * kLanes) {
        _mm512_storeu_si512(to + j, interleaved(rows, panel.begin + j, false));
        _mm512_storeu_si512(to + j + kLanes, interleaved(rows, panel.begin + j, true));
      }
      for (; j < panel.width; j += kLanes)
        _mm512_storeu_si512(to + j, pairs(rows, panel.begin + j, present - j));
    }
  }
}

/// Rows are columns.
ZC_BF16 void packRowsOfColumns(Matrix source, int64_t terms, int64_t units, int64_t columns, int64_t width,
                               uint32_t *panel) {
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

/// Into blocks of so many rows.
ZC_BF16 void packLeftInSteps(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride,
                             int64_t ofBlock) {
  for (int64_t u = 0; u < (terms + 1) / 2; u += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i)
      prefetchTerms(source, terms, u + i + kLanes, count);
    for (int64_t row = 0; row < roundUp(count, kLanes); row += kLanes) {
      __m512i x[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        x[i] = pairs({source, terms, u + i}, row, count - row);
      transpose(x);
      uint32_t *to = blocks + row / ofBlock * stride + u * ofBlock + row % ofBlock * kLanes;
      for (int64_t i = 0; i < kLanes; ++i)
        _mm512_storeu_si512(to + i * kLanes, x[i]);
    }
  }
}

ZC_BF16 void copyLeftInSteps(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks,
                             int64_t stride, int64_t ofBlock) {
  for (int64_t r = 0; r < roundUp(count, ofBlock); ++r) {
    const Bf16 *from = source.at + r * source.stride;
    uint32_t *to = blocks + r / ofBlock * stride + r % ofBlock * kLanes;
    for (int64_t u = 0; u < units; u += kLanes, to += ofBlock * kLanes) {
      const int64_t present = r < count ? std::clamp<int64_t>(terms - 2 * u, 0, 2 * kLanes) : 0;
      const __mmask32 mask = present == 2 * kLanes ? ~__mmask32(0) : (__mmask32(1) << present) - 1;
      _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from + 2 * u));
    }
  }
}

} // namespace

const std::vector<const Engine *> &engines() {
  static const std::vector<const Engine *> all = [] {
    std::vector<const Engine *> found;
    for (const Engine *engine : {engineOfAmx(), engineOfAvx512()})
      if (engine)
        found.push_back(engine);
    return found;
  }();
  return all;
}

void packPanels(const RightFactor &factor, const Panels &panels, int64_t first, int64_t last, int64_t units,
                uint32_t *block) {
  if (!factor.isTransposed)
    return packRowsOfTerms(factor, panels, first, last, units, block);
  for (int64_t index = first; index < last; ++index) {
    const Panel panel = panels[index];
    packRowsOfColumns({factor.source.at + panel.begin * factor.source.stride, factor.source.stride}, factor.terms,
                      units, panels.present(index), panel.width, block + panel.begin * units);
  }
}

LinesAhead panelsAhead(const RightFactor &factor, const Panels &panels, int64_t first, int64_t last, int64_t steps) {
  const int64_t begin = panels[first].begin, columns = panels[last - 1].begin + panels.present(last - 1) - begin;
  const auto [source, isTransposed, terms] = factor;
  return isTransposed ? LinesAhead(source.at + begin * source.stride, columns, 2 * terms, 2 * source.stride, steps)
                      : LinesAhead(source.at + begin, terms, 2 * columns, 2 * source.stride, steps);
}

ZC_BF16 void packLeftOf8(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride) {
  constexpr int64_t kRows = 8;
  for (int64_t u = 0; u < (terms + 1) / 2; ++u) {
    const TermRows rows(source, terms, u);
    prefetchTerms(source, terms, u, count);
    for (int64_t i = 0; i < count; i += kLanes) {
      const __m512i both = pairs(rows, i, count - i);
      uint32_t *block = blocks + i / kRows * stride + u * kRows;
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(block), _mm512_castsi512_si256(both));
      if (i + kRows < count)
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(block + stride), _mm512_extracti64x4_epi64(both, 1));
    }
  }
}

void copyLeftOf8(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride) {
  constexpr int64_t kRows = 8;
  for (int64_t r = 0; r < roundUp(count, kRows); ++r) {
    uint32_t *row = blocks + r / kRows * stride + r % kRows * units;
    const int64_t present = r < count ? terms : 0;
    std::fill(row + present / 2, row + units, 0);
    std::memcpy(row, source.at + r * source.stride, static_cast<size_t>(present) * sizeof(Bf16));
  }
}

void packLeftOf32(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride) {
  packLeftInSteps(source, terms, count, blocks, stride, 32);
}
void packLeftOf48(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride) {
  packLeftInSteps(source, terms, count, blocks, stride, 48);
}
void copyLeftOf32(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride) {
  copyLeftInSteps(source, terms, units, count, blocks, stride, 32);
}
void copyLeftOf48(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride) {
  copyLeftInSteps(source, terms, units, count, blocks, stride, 48);
}

void Rounding::some(int64_t count) {
  count = std::min(count, rows);
  roundTile(sums, sumsStride, bias, count, columns, out, stride, streams);
  sums += count * sumsStride;
  out += count * stride;
  rows -= count;
}

namespace {
/// Elements [j, j + 16) of a row of sums, with the bias; those of the mask.
ZC_BF16 __m512 sumsOf(const float *row, const Bf16 *bias, int64_t j, int64_t columns, __mmask16 mask) {
  const __m512 sums = _mm512_maskz_loadu_ps(mask, row + j);
  return bias ? _mm512_add_ps(sums, widened(bias + j, columns - j)) : sums;
}
} // namespace

ZC_BF16 void roundTile(const float *sums, int64_t sumsStride, const Bf16 *bias, int64_t rows, int64_t columns,
                       Bf16 *out, int64_t stride, bool streams) {
  constexpr __mmask16 kAll = 0xffff;
  for (int64_t r = 0; r < rows; ++r) {
    const float *row = sums + r * sumsStride;
    Bf16 *to = out + r * stride;
    int64_t j = 0;
    if (streams && reinterpret_cast<uintptr_t>(to) % 64 == 0)
      for (; columns - j >= 2 * kLanes; j += 2 * kLanes)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to + j),
                            (__m512i)_mm512_cvtne2ps_pbh(sumsOf(row, bias, j + kLanes, columns, kAll),
                                                         sumsOf(row, bias, j, columns, kAll)));
    for (; j < columns; j += kLanes) {
      const __mmask16 mask = firstLanes(columns - j);
      _mm256_mask_storeu_epi16(to + j, mask, (__m256i)_mm512_cvtneps_pbh(sumsOf(row, bias, j, columns, mask)));
    }
  }
}

} // namespace zc::cpu::bf16
