#include "base/Tensor.h"

#include <array>

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

} // namespace zc
