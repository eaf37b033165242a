//===- Tensor.h - element types and shapes ------------------------------------===//
#pragma once

#include "base/Float16.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zc {

enum class DType : uint8_t { f32, bf16, f16, f64, i64, i32, i16, i8, u8, boolean, u16, u32, u64 };

/// What a file may say of a tensor before it is taken for damaged.
inline constexpr size_t kMaxRank = 64;
inline constexpr int64_t kMaxElements = int64_t(1) << 48;

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

} // namespace zc
