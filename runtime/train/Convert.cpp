#include "runtime/train/Convert.h"
#include "kernels/formula/Elements.h"

#include <cstring>

namespace zc::train {

bool convertible(DType from, DType to) { return from == to || (formula::isFloat(from) && formula::isFloat(to)); }

/// Through fp32. Addresses are of any alignment.
template <typename From, typename To> static void convertEach(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, from + i * int64_t(sizeof x), sizeof x);
    const auto y = formula::store<To>(static_cast<float>(formula::load(x)));
    std::memcpy(to + i * int64_t(sizeof y), &y, sizeof y);
  }
}

void convert(const void *from, DType fromType, void *to, DType toType, int64_t count) {
  if (count == 0)
    return;
  if (fromType == toType) {
    std::memcpy(to, from, size_t(count * sizeOf(fromType)));
    return;
  }
  formula::withFloat(fromType, [&](auto source) {
    formula::withFloat(toType, [&](auto destination) {
      convertEach<formula::TypeOf<decltype(source)>, formula::TypeOf<decltype(destination)>>(
          static_cast<const char *>(from), static_cast<char *>(to), count);
    });
  });
}

void turn(const char *from, int64_t rows, int64_t columns, int64_t size, char *to) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r, to += size)
      std::memcpy(to, from + (r * columns + c) * size, size_t(size));
}

} // namespace zc::train
