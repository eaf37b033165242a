//===- Float16.h - 16-bit floats as bits ----------------------------------------===//
#pragma once

#include "base/HostDevice.h"

#include <cstdint>
#include <cstring>

namespace zc {

// bf16 and f16 <-> f32, round to nearest even; too large gives infinity; NaN stays NaN (of which bits, is the
// processor's). Inline and without branches that need a value in memory, so that loops over them become vectors. A GPU
// has an instruction for each, where these lines would be ten.

namespace detail {
ZC_HD uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
ZC_HD float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
} // namespace detail

ZC_HD float fromBf16(uint16_t bits) { return detail::floatOf(static_cast<uint32_t>(bits) << 16); }
ZC_HD uint16_t toBf16(float value) {
#ifdef __CUDA_ARCH__
  uint16_t converted;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(converted) : "f"(value));
  return converted;
#else
  uint32_t bits = detail::bitsOf(value);
  uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  bool isNan = (bits & 0x7FFFFFFFu) > 0x7F800000u; // keep the sign, make it quiet
  return static_cast<uint16_t>((isNan ? bits | 0x400000u : rounded) >> 16);
#endif
}

ZC_HD float fromF16(uint16_t bits) {
#ifdef __CUDA_ARCH__
  float converted;
  asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
  return converted;
#else
  uint32_t magnitude = bits & 0x7FFFu, sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t normal = (magnitude << 13) + (112u << 23);
  uint32_t subnormal = detail::bitsOf(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  uint32_t special = magnitude << 13 | 0x7F800000u; // infinities and NaN
  return detail::floatOf(sign | (magnitude < 0x400u ? subnormal : magnitude < 0x7C00u ? normal : special));
#endif
}
ZC_HD uint16_t toF16(float value) {
#ifdef __CUDA_ARCH__
  uint16_t converted;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(converted) : "f"(value));
  return converted;
#else
  uint32_t bits = detail::bitsOf(value), magnitude = bits & 0x7FFFFFFFu;
  uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
  // Adding 0.5 leaves a multiple of 2^-24, rounded, in the lowest bits.
  uint32_t subnormal = detail::bitsOf(detail::floatOf(magnitude) + 0.5f) - 0x3F000000u;
  uint32_t special = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : magnitude < 0x477FF000u ? normal : special;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | half);
#endif
}

} // namespace zc
