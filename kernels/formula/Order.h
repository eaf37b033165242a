//===- Order.h - which element comes first, and what updates do to elements ----------===//
#pragma once

#include "kernels/ScatterReduction.h"
#include "kernels/formula/Elements.h"

#include <cstring>

namespace zc::formula {

/// A number that grows with x: NaN is the largest, both zeros are one.
template <typename C> ZC_HD uint64_t orderKey(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    if (x != x)
      return ~uint64_t{0};
    double real = static_cast<double>(x) + 0.0; // -0 becomes 0
    uint64_t bits;
    std::memcpy(&bits, &real, sizeof(bits));
    return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
  } else if constexpr (std::is_unsigned_v<C>) {
    return x;
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(x)) ^ uint64_t { 1 } << 63;
  }
}
/// The same where the smallest comes first, and NaN last.
template <typename C> ZC_HD uint64_t orderKey(C x, bool smallest) { return smallest ? ~orderKey(x) : orderKey(x); }

/// The largest (or smallest) of some numbers has the largest of these: NaN wins, as torch's argmin has it too.
template <typename C> ZC_HD uint64_t extremeKey(C x, bool smallest) {
  const bool isNan = std::is_floating_point_v<C> && x != x;
  return isNan ? ~uint64_t{0} : orderKey(x, smallest);
}

/// `target` after `update`. NaN wins.
template <typename T> ZC_HD T updated(ScatterReduction reduction, T target, T update) {
  auto a = load(target), b = load(update);
  using C = Compute<T>;
  switch (reduction) {
  case ScatterReduction::add:
    return store<T>(static_cast<C>(a + b));
  case ScatterReduction::mul:
    return store<T>(static_cast<C>(a * b));
  case ScatterReduction::min:
    return b < a || b != b ? update : target;
  case ScatterReduction::max:
    return b > a || b != b ? update : target;
  case ScatterReduction::none:
    break;
  }
  return update;
}

} // namespace zc::formula
