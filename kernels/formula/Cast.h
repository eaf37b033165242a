//===- Cast.h - one element as another type -----------------------------------===//
#pragma once

#include "kernels/formula/Stored.h"

#include <cmath>
#include <limits>

namespace zc::formula {

/// Floats to integers truncate and saturate (NaN gives 0), anything to bool is x != 0, integers wrap.
template <typename To, typename From> ZC_HD To convert(From value) {
  auto x = load(value);
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (Element<To>::isFloat) {
    return store<To>(static_cast<Compute<To>>(x));
  } else if constexpr (Element<From>::isFloat) {
    // The limits of To as doubles: max may round up to 2^63, which must saturate too.
    auto real = static_cast<double>(x);
    if (std::isnan(real))
      return 0;
    if (real >= static_cast<double>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (real <= static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(real);
  } else {
    return static_cast<To>(x);
  }
}

} // namespace zc::formula
