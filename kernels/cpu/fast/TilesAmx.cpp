// Tiles by AMX.
#include "kernels/cpu/fast/TilesBf16.h"

#include <dnnl.hpp>
#include <immintrin.h>

#include <algorithm>

#define ZC_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace zc::cpu::bf16 {
namespace {

constexpr int64_t kHalf = 16;           // rows, or columns, of a register's sums
constexpr int64_t kColumns = 2 * kHalf; // of a tile
constexpr int64_t kStep = 16;           // units of a register's row

/// What ldtilecfg reads: eight registers of 16 rows, 64 bytes each.
struct alignas(64) Configuration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// GCC's intrinsic does not say that memory is read.
ZC_AMX void configure() {
  static constexpr Configuration configuration;
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}
/// What went past the caches is there for others afterwards.
ZC_AMX void release() {
  asm volatile("tilerelease");
  _mm_sfence();
}

constexpr int64_t kPanelBytes = 4 * kColumns; // of a unit's row

/// A step of up to 32 rows: four loads for four multiplications. Sums are in registers 0 to 3, row by row.
template <int kHalves> ZC_AMX inline void multiplyStep(const char *left, int64_t rowStride, const uint32_t *panel) {
  _tile_loadd(6, panel, kPanelBytes);
  _tile_loadd(4, left, rowStride);
  _tile_loadd(7, panel + kHalf, kPanelBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (kHalves > 1) {
    _tile_loadd(5, left + kHalf * rowStride, rowStride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}
/// Of 48 rows, sums in 0 to 5: the left factor comes by one register, its first rows twice, the second time from the
/// first cache.
template <> ZC_AMX inline void multiplyStep<3>(const char *left, int64_t rowStride, const uint32_t *panel) {
  const int64_t half = kHalf * rowStride;
  _tile_loadd(6, panel, kPanelBytes);
  _tile_loadd(7, left, rowStride);
  _tile_dpbf16ps(0, 7, 6);
  _tile_loadd(7, left + half, rowStride);
  _tile_dpbf16ps(2, 7, 6);
  _tile_loadd(7, left + 2 * half, rowStride);
  _tile_dpbf16ps(4, 7, 6);
  _tile_loadd(6, panel + kHalf, kPanelBytes);
  _tile_dpbf16ps(5, 7, 6);
  _tile_loadd(7, left + half, rowStride);
  _tile_dpbf16ps(3, 7, 6);
  _tile_loadd(7, left, rowStride);
  _tile_dpbf16ps(1, 7, 6);
}

template <int kHalves> ZC_AMX void loadSums(const float *sums, int64_t stride) {
  const int64_t half = kHalf * stride, bytes = 4 * stride;
  _tile_loadd(0, sums, bytes);
  _tile_loadd(1, sums + kHalf, bytes);
  if constexpr (kHalves > 1) {
    _tile_loadd(2, sums + half, bytes);
    _tile_loadd(3, sums + half + kHalf, bytes);
  }
  if constexpr (kHalves > 2) {
    _tile_loadd(4, sums + 2 * half, bytes);
    _tile_loadd(5, sums + 2 * half + kHalf, bytes);
  }
}
ZC_AMX void zeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}
template <int kHalves> ZC_AMX void storeSums(float *sums, int64_t stride) {
  const int64_t half = kHalf * stride, bytes = 4 * stride;
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kHalf, bytes);
  if constexpr (kHalves > 1) {
    _tile_stored(2, sums + half, bytes);
    _tile_stored(3, sums + half + kHalf, bytes);
  }
  if constexpr (kHalves > 2) {
    _tile_stored(4, sums + 2 * half, bytes);
    _tile_stored(5, sums + 2 * half + kHalf, bytes);
  }
}

template <int kHalves> ZC_AMX void multiply(const TileProduct &p) {
  if (p.adds)
    loadSums<kHalves>(p.sums, p.stride);
  else
    zeroSums();
  const int64_t rounded = p.rounding ? quotientUp(p.rounding->rows * kStep, std::max(p.units, kStep)) : 0;
  const char *left = p.left.at;
  const uint32_t *panel = p.panel;
  for (int64_t u = 0; u < p.units; u += kStep, left += p.left.stepStride, panel += kStep * kColumns) {
    multiplyStep<kHalves>(left, p.left.rowStride, panel);
    if (p.rightAhead) // rows are copied, or not asked for
      p.rightAhead->step();
    if (rounded > 0)
      p.rounding->some(rounded);
  }
  storeSums<kHalves>(p.sums, p.stride);
}

void multiplyTile(const TileProduct &product) {
  (product.height > 2 * kHalf ? multiply<3> : product.height > kHalf ? multiply<2> : multiply<1>)(product);
}

constexpr Engine makeEngine(int64_t rows, const Engine *ofHeads) {
  Engine engine{};
  engine.name = "AMX tiles";
  engine.rows = rows;
  engine.columns = kColumns;
  engine.ofHeads = ofHeads;
  engine.rowStep = kHalf;
  engine.unitStep = kStep;
  engine.panels = 4;
  // Registers of rows that are apart load slower: 1.59 TF/s of products that come from the second cache, 1.8 of copies.
  engine.copiesLeft = true;
  engine.copyLeft = rows == kTileRows ? copyLeftOf32 : copyLeftOf48;
  engine.streams = true;
  engine.packsFirst = engine.asksForPanels = true;
  engine.longTerms = 256;
  engine.begin = configure;
  engine.end = release;
  engine.multiply = multiplyTile;
  engine.packLeft = rows == kTileRows ? packLeftOf32 : packLeftOf48;
  engine.packedRowStride = 4 * kStep;
  engine.packedStepStride = 4 * kStep * rows;
  return engine;
}
constexpr Engine kHeads = makeEngine(kTileRows, nullptr), kEngine = makeEngine(kMostRows, &kHeads);

} // namespace

const Engine *engineOfAmx() {
  // Asks Linux for the registers, which a process has not by itself; obeys ONEDNN_MAX_CPU_ISA.
  static const bool has = [] {
    constexpr auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & amx) == amx;
  }();
  return has && engineOfAvx512() ? &kEngine : nullptr;
}

} // namespace zc::cpu::bf16
