// Tiles by AVX512_BF16.
#include "kernels/cpu/fast/Avx512Bf16.h"
#include "kernels/cpu/fast/TilesBf16.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstring>

namespace zc::cpu::bf16 {
namespace {

constexpr int64_t kRows = 8;

/// Rows of the result that a tile becomes, to be there when it is.
struct ResultAhead {
  const char *at;
  int64_t rows, bytes, stride;
  explicit ResultAhead(const Rounding *r)
      : at(r ? reinterpret_cast<const char *>(r->out) : nullptr), rows(r ? r->rows : 0), bytes(r ? 2 * r->columns : 0),
        stride(r ? 2 * r->stride : 0) {}
  /// One of them.
  void step() {
    if (--rows < 0)
      return;
    prefetchToWrite(at, bytes);
    at += stride;
  }
};

/// Sixteen sums of a row, rounded; `mask` says which columns there are.
ZC_BF16 void storeRounded(__m512 sums, __m512 bias, Bf16 *to, __mmask16 mask) {
  _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_add_ps(sums, bias)));
}

/// Unit `u` of row `r` is at rows[r] + 4 * u of its own, or, in blocks, at rows[0] + 4 * (kRows * u + r).
/// `kOnlySums`: it asks for nothing and rounds nothing.
template <int kVectors, bool kIsBlock, bool kOnlySums> ZC_BF16 void multiply(const TileProduct &p) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm512_setzero_ps();
  const char *rows[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    rows[r] = p.left.at + r * p.left.rowStride;
    asm("" : "+r"(rows[r])); // a register each, which are not made of one another in the loop
  }
  const uint32_t *panel = p.panel;
  ResultAhead result(p.rounding);
  for (int64_t u = 0; u < p.units;) {
    if (!kOnlySums) {
      // What is asked for is not held in registers, or GCC keeps one of the factors' vectors in memory: 4 % more time.
      asm volatile("" ::: "memory");
      result.step();
      for (LinesAhead *ahead : {p.leftAhead, p.rightAhead})
        if (ahead)
          ahead->step();
    }
    for (const int64_t end = kOnlySums ? p.units : std::min(p.units, u + LinesAhead::kStepUnits); u < end;
         ++u, panel += kVectors * kLanes) {
      __m512bh right[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        right[v] = (__m512bh)_mm512_loadu_si512(panel + kLanes * v);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int pair;
        std::memcpy(&pair, kIsBlock ? rows[0] + 4 * (kRows * u + r) : rows[r] + 4 * u, sizeof pair);
        const __m512bh left = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
      }
    }
  }
  if (p.adds)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_add_ps(_mm512_loadu_ps(p.sums + r * p.stride + kLanes * v), sum[r][v]);
  if (kOnlySums || !p.rounding) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        _mm512_storeu_ps(p.sums + r * p.stride + kLanes * v, sum[r][v]);
    return;
  }
  const Rounding &to = *p.rounding;
  __m512 bias[kVectors];
  __mmask16 present[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    present[v] = firstLanes(to.columns - kLanes * v);
    bias[v] = to.bias ? widened(to.bias + kLanes * v, to.columns - kLanes * v) : _mm512_set1_ps(-0.0f);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    if (r < to.rows)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        storeRounded(sum[r][v], bias[v], to.out + r * to.stride + kLanes * v, present[v]);
}

template <bool kOnlySums> void multiplyTile(const TileProduct &p) {
  const bool isBlock = p.left.stepStride != 4, isNarrow = p.width == Panels::kNarrow;
  (isNarrow ? (isBlock ? multiply<2, true, kOnlySums> : multiply<2, false, kOnlySums>)
            : (isBlock ? multiply<3, true, kOnlySums> : multiply<3, false, kOnlySums>))(p);
}
void multiplyAny(const TileProduct &p) {
  (p.leftAhead || p.rightAhead || p.rounding ? multiplyTile<false> : multiplyTile<true>)(p);
}

void nothing() {}

constexpr Engine makeEngine(int64_t columns, const Engine *ofHeads) {
  Engine engine{};
  engine.name = "tiles of registers";
  engine.rows = engine.rowStep = kRows;
  engine.columns = columns;
  engine.ofHeads = ofHeads;
  engine.unitStep = engine.panels = 1;
  engine.roundsOwn = engine.asksForRows = true;
  engine.longTerms = 512;
  engine.begin = engine.end = nothing;
  engine.multiply = multiplyAny;
  engine.copyLeft = copyLeftOf8;
  engine.packLeft = packLeftOf8;
  engine.packedRowStride = 4;
  engine.packedStepStride = 4 * kRows;
  return engine;
}
constexpr Engine kHeads = makeEngine(Panels::kNarrow, nullptr), kEngine = makeEngine(kMostColumns, &kHeads);

} // namespace

const Engine *engineOfAvx512() {
  const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16");
  return has ? &kEngine : nullptr;
}

} // namespace zc::cpu::bf16
