//===- Avx512Bf16.h - for files in intrinsics of AVX512_BF16 ---------------------------===//
//
// Highway 1.0 has no target with it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"

#include <immintrin.h>

// GCC 12 takes the undefined vectors inside of its intrinsics for uninitialised ones.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define ZC_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace zc::cpu::bf16 {
constexpr int kLanes = 16; ///< of 32 bits

/// The first `count` of them; all of more, none of fewer than one.
inline __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}
/// Elements [0, count) of a row, each in the low half of a unit; zeros beyond.
ZC_BF16 inline __m512i lowHalves(const Bf16 *row, int64_t count) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(firstLanes(count), row));
}
/// The same in fp32.
ZC_BF16 inline __m512 widened(const Bf16 *row, int64_t count) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(lowHalves(row, count), 16));
}
} // namespace zc::cpu::bf16
