// Tiles by AVX512_BF16.
#include "kernels/cpu/fast/Avx512Bf16.h"
#include "kernels/cpu/fast/TilesBf16.h"

#include <hwy/targets.h>

#include <cstring>

namespace zc::cpu::bf16 {
namespace {

constexpr int64_t kRows = 8;

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

void multiplyTile(const TileProduct &p) {
  const char *rows[kRows];
  for (int64_t r = 0; r < kRows; ++r)
    rows[r] = p.left.at + r * p.left.rowStride;
  const bool isBlock = p.left.stepStride != 4, isNarrow = p.width == Panels::kNarrow;
  auto *by = isNarrow ? (isBlock ? multiply<2, true> : multiply<2, false>)
                      : (isBlock ? multiply<3, true> : multiply<3, false>);
  by(rows, p.panel, p.units, p.sums, p.stride, p.adds);
}

void nothing() {}

constexpr Engine makeEngine(int64_t columns, const Engine *ofHeads) {
  Engine engine{};
  engine.name = "tiles of registers";
  engine.rows = engine.rowStep = kRows;
  engine.columns = columns;
  engine.ofHeads = ofHeads;
  engine.unitStep = engine.panels = 1;
  engine.longTerms = 512;
  engine.begin = engine.end = nothing;
  engine.multiply = multiplyTile;
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
