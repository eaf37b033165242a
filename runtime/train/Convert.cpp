#include "runtime/train/Convert.h"

#include <cstring>

namespace zc::train {

static bool isFloating(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

bool convertible(DType from, DType to) { return from == to || (isFloating(from) && isFloating(to)); }

float fromF16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  uint32_t out;
  if (exponent == 31) {
    out = sign | 0x7F800000 | fraction << 13;
  } else if (exponent != 0) {
    out = sign | (exponent + 112) << 23 | fraction << 13;
  } else {
    float small = float(fraction) * 0x1p-24f; // exact: subnormal halves are normal floats
    std::memcpy(&out, &small, 4);
    out |= sign;
  }
  float value;
  std::memcpy(&value, &out, 4);
  return value;
}

uint16_t toF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return sign | 0x7E00;
  if (magnitude >= 0x477FF000) // rounds to 65536 or more
    return sign | 0x7C00;
  if (magnitude < 0x38800000) { // subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits
    float shifted;
    std::memcpy(&shifted, &magnitude, 4);
    shifted += 0.5f;
    std::memcpy(&magnitude, &shifted, 4);
    return sign | uint16_t(magnitude - 0x3F000000);
  }
  uint32_t rounded = magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1);
  return sign | uint16_t(rounded >> 13);
}

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

} // namespace zc::train
