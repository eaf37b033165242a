#include "runtime/train/Convert.h"

#include <cstring>

namespace zc::train {

static bool isFloating(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

bool convertible(DType from, DType to) { return from == to || (isFloating(from) && isFloating(to)); }

namespace {

template <typename T> T load(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T> void store(char *at, T value) { std::memcpy(at, &value, sizeof value); }

float loadFloat(const char *at, DType type) {
  switch (type) {
  case DType::bf16:
    return fromBf16(load<uint16_t>(at));
  case DType::f16:
    return fromF16(load<uint16_t>(at));
  case DType::f64:
    return float(load<double>(at));
  default:
    return load<float>(at);
  }
}

void storeFloat(char *at, DType type, float value) {
  switch (type) {
  case DType::bf16:
    return store(at, toBf16(value));
  case DType::f16:
    return store(at, toF16(value));
  case DType::f64:
    return store(at, double(value));
  default:
    return store(at, value);
  }
}

} // namespace

void convert(const void *from, DType fromType, void *to, DType toType, int64_t count) {
  if (count == 0)
    return;
  if (fromType == toType) {
    std::memcpy(to, from, size_t(count * sizeOf(fromType)));
    return;
  }
  auto *source = static_cast<const char *>(from);
  auto *destination = static_cast<char *>(to);
  for (int64_t i = 0; i < count; ++i)
    storeFloat(destination + i * sizeOf(toType), toType, loadFloat(source + i * sizeOf(fromType), fromType));
}

void turn(const char *from, int64_t rows, int64_t columns, int64_t size, char *to) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r, to += size)
      std::memcpy(to, from + (r * columns + c) * size, size_t(size));
}

} // namespace zc::train
