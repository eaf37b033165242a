//===- Tensor.h - element types and shapes ------------------------------------===//
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zc {

enum class DType : uint8_t { f32, bf16, f16, f64, i64, i32, i16, i8, u8, boolean, u16, u32, u64 };

/// Bytes of one element; bool takes one.
constexpr int64_t sizeOf(DType type) {
  switch (type) {
  case DType::f64:
  case DType::i64:
  case DType::u64:
    return 8;
  case DType::f32:
  case DType::i32:
  case DType::u32:
    return 4;
  case DType::bf16:
  case DType::f16:
  case DType::i16:
  case DType::u16:
    return 2;
  case DType::i8:
  case DType::u8:
  case DType::boolean:
    return 1;
  }
  return 0;
}

/// "f32", "bf16", ..., "bool".
std::string_view nameOf(DType type);
std::optional<DType> dtypeFromName(std::string_view name);

/// Element type and static shape.
struct TensorType {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;

  /// Product of dims; dims of verified plans never overflow.
  int64_t numElements() const {
    int64_t n = 1;
    for (int64_t d : dims)
      n *= d;
    return n;
  }
  int64_t numBytes() const { return numElements() * sizeOf(dtype); }
  bool operator==(const TensorType &other) const { return dtype == other.dtype && dims == other.dims; }
};

// bf16 and f16 <-> f32, round to nearest even; too large gives infinity; NaN stays NaN. Inline and without branches
// that need a value in memory, so that loops over them become vectors.

namespace detail {
inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
} // namespace detail

inline float fromBf16(uint16_t bits) { return detail::floatOf(static_cast<uint32_t>(bits) << 16); }
inline uint16_t toBf16(float value) {
  uint32_t bits = detail::bitsOf(value);
  uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  bool isNan = (bits & 0x7FFFFFFFu) > 0x7F800000u; // keep the sign, make it quiet
  return static_cast<uint16_t>((isNan ? bits | 0x400000u : rounded) >> 16);
}

inline float fromF16(uint16_t bits) {
  uint32_t magnitude = bits & 0x7FFFu, sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t normal = (magnitude << 13) + (112u << 23);
  uint32_t subnormal = detail::bitsOf(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  uint32_t special = magnitude << 13 | 0x7F800000u; // infinities and NaN
  return detail::floatOf(sign | (magnitude < 0x400u ? subnormal : magnitude < 0x7C00u ? normal : special));
}
inline uint16_t toF16(float value) {
  uint32_t bits = detail::bitsOf(value), magnitude = bits & 0x7FFFFFFFu;
  uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
  // Adding 0.5 leaves a multiple of 2^-24, rounded, in the lowest bits.
  uint32_t subnormal = detail::bitsOf(detail::floatOf(magnitude) + 0.5f) - 0x3F000000u;
  uint32_t special = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : magnitude < 0x477FF000u ? normal : special;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | half);
}

} // namespace zc
