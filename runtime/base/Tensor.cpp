#include "runtime/base/Tensor.h"

#include <array>
#include <cstring>

namespace zc {

namespace {
constexpr std::array<std::string_view, 13> kNames = {"f32", "bf16", "f16",  "f64", "i64", "i32", "i16",
                                                     "i8",  "u8",   "bool", "u16", "u32", "u64"};
} // namespace

std::string_view nameOf(DType type) {
  size_t index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

std::optional<DType> dtypeFromName(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) // NaN: keep the sign, make it quiet
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float fromBf16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

} // namespace zc
