#include "runtime/train/Convert.h"

#include <cstring>

namespace zc::train {

static bool isFloating(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

bool convertible(DType from, DType to) { return from == to || (isFloating(from) && isFloating(to)); }

namespace {

// How elements are stored, and the fp32 value of one: known to each loop, which asks no more per element.
struct OfF32 {
  using Stored = float;
  static float load(Stored x) { return x; }
  static Stored store(float x) { return x; }
};
struct OfF64 {
  using Stored = double;
  static float load(Stored x) { return float(x); }
  static Stored store(float x) { return double(x); }
};
struct OfBf16 {
  using Stored = uint16_t;
  static float load(Stored x) { return fromBf16(x); }
  static Stored store(float x) { return toBf16(x); }
};
struct OfF16 {
  using Stored = uint16_t;
  static float load(Stored x) { return fromF16(x); }
  static Stored store(float x) { return toF16(x); }
};

template <typename Body> void withStorage(DType type, Body body) {
  switch (type) {
  case DType::bf16:
    return body(OfBf16{});
  case DType::f16:
    return body(OfF16{});
  case DType::f64:
    return body(OfF64{});
  default:
    return body(OfF32{});
  }
}

/// Addresses are of any alignment.
template <typename From, typename To> void convertEach(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename From::Stored x;
    std::memcpy(&x, from + i * int64_t(sizeof x), sizeof x);
    const typename To::Stored y = To::store(From::load(x));
    std::memcpy(to + i * int64_t(sizeof y), &y, sizeof y);
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
  withStorage(fromType, [&](auto source) {
    withStorage(toType, [&](auto destination) {
      convertEach<decltype(source), decltype(destination)>(static_cast<const char *>(from), static_cast<char *>(to),
                                                           count);
    });
  });
}

void turn(const char *from, int64_t rows, int64_t columns, int64_t size, char *to) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r, to += size)
      std::memcpy(to, from + (r * columns + c) * size, size_t(size));
}

} // namespace zc::train
