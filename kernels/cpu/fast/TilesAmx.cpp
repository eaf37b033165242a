// Tiles by AMX.
#include "kernels/cpu/fast/TilesBf16.h"

#include <dnnl.hpp>
#include <immintrin.h>

#define ZC_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace zc::cpu::bf16 {
namespace {

constexpr int64_t kHalf = 16, kSide = 2 * kHalf; // rows, or columns, of a register's sums and of a tile's
constexpr int64_t kStep = 16;                    // units of a register's row

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

/// The lines of a step, into the second cache: the first one has no room for more than the factors.
inline void ask(const char *at, const Lines &lines) {
  for (int64_t i = 0; i < lines.count; ++i)
    __builtin_prefetch(at + i * lines.stride, 0, 2);
}

/// Sums are in registers 0 to 3, row by row, the left factor in 4 and 5, the right one in 6 and 7. Without the second
/// row if not tall.
template <bool kIsTall> ZC_AMX void multiply(const TileProduct &p) {
  const int64_t bytes = p.stride * 4, rowStride = p.left.rowStride;
  float *const sums = p.sums, *const below = sums + kHalf * p.stride;
  if (p.adds) {
    _tile_loadd(0, sums, bytes);
    _tile_loadd(1, sums + kHalf, bytes);
    if constexpr (kIsTall) {
      _tile_loadd(2, below, bytes);
      _tile_loadd(3, below + kHalf, bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kIsTall) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  const char *left = p.left.at, *ahead = p.ahead.at;
  const uint32_t *panel = p.panel;
  for (int64_t u = 0; u < p.units;
       u += kStep, left += p.left.stepStride, panel += kStep * kSide, ahead += p.ahead.stepStride) {
    _tile_loadd(6, panel, 4 * kSide);
    _tile_loadd(4, left, rowStride);
    _tile_loadd(7, panel + kHalf, 4 * kSide);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    ask(ahead, p.ahead);
    if constexpr (kIsTall) {
      _tile_loadd(5, left + kHalf * rowStride, rowStride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kHalf, bytes);
  if constexpr (kIsTall) {
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + kHalf, bytes);
  }
}

void multiplyTile(const TileProduct &product) { (product.height > kHalf ? multiply<true> : multiply<false>)(product); }

constexpr Engine makeEngine() {
  Engine engine{};
  engine.name = "AMX tiles";
  engine.rows = engine.columns = kSide;
  engine.rowStep = kHalf;
  engine.unitStep = kStep;
  engine.panels = 4;
  // Registers of rows that are apart load slower: 1.59 TF/s of products that come from the second cache, 1.8 of copies.
  engine.copiesLeft = true;
  engine.copyLeft = copyLeftOf32;
  engine.streams = true;
  engine.begin = configure;
  engine.end = release;
  engine.multiply = multiplyTile;
  engine.packLeft = packLeftOf32;
  engine.packedRowStride = 4 * kStep;
  engine.packedStepStride = 4 * kStep * kSide;
  return engine;
}
constexpr Engine kEngine = makeEngine();

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
