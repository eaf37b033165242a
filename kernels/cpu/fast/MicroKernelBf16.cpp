// The tile of a bf16 product where the CPU has AVX512_BF16: vdpbf16ps takes 32 pairs of terms at once. Highway 1.0 has
// no target with it, so this is written in intrinsics.
#include "kernels/cpu/fast/MicroKernel.h"

#include <hwy/targets.h>
#include <immintrin.h>

namespace zc::cpu {
namespace {

constexpr int kRows = 8;

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void multiply(const float *a, int64_t rowStride,
                                                                              int64_t unitStride, const float *b,
                                                                              int64_t units, float *c, int64_t stride,
                                                                              bool adds) {
  __m512 left[kRows], right[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    left[r] = right[r] = _mm512_setzero_ps();
  for (int64_t u = 0; u < units; ++u, a += unitStride, b += kTileColumns) {
    const __m512bh b0 = (__m512bh)_mm512_loadu_ps(b), b1 = (__m512bh)_mm512_loadu_ps(b + 16);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512bh pair = (__m512bh)_mm512_set1_ps(a[r * rowStride]);
      left[r] = _mm512_dpbf16_ps(left[r], pair, b0);
      right[r] = _mm512_dpbf16_ps(right[r], pair, b1);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, c += stride) {
    if (adds) {
      left[r] = _mm512_add_ps(left[r], _mm512_loadu_ps(c));
      right[r] = _mm512_add_ps(right[r], _mm512_loadu_ps(c + 16));
    }
    _mm512_storeu_ps(c, left[r]);
    _mm512_storeu_ps(c + 16, right[r]);
  }
}

constexpr MicroKernel kBf16{kRows, kTileColumns, 2, multiply};

} // namespace

const MicroKernel *bf16MicroKernel() {
  const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16");
  return has ? &kBf16 : nullptr;
}

} // namespace zc::cpu
