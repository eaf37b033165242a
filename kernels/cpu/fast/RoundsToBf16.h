//===- RoundsToBf16.h - whether the CPU rounds to bf16 by an instruction ------------------===//
//
// Highway 1.0 has no target with it.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace zc::cpu {

/// vcvtneps2bf16, of AVX512_BF16.
inline const bool roundsToBf16 = __builtin_cpu_supports("avx512bf16") != 0;

} // namespace zc::cpu
