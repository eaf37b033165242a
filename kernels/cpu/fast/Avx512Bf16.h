//===- Avx512Bf16.h - for files in intrinsics of AVX512_BF16 ---------------------------===//
//
// Highway 1.0 has no target with it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <immintrin.h>

// GCC 12 takes the undefined vectors inside of its intrinsics for uninitialised ones.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define ZC_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace zc::cpu::bf16 {
constexpr int kLanes = 16; ///< of 32 bits
} // namespace zc::cpu::bf16
