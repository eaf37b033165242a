//===- Divider.h - division by what is known when a kernel is prepared -------------===//
#pragma once

#include "base/HostDevice.h"

#include <cstdint>

namespace zc::cuda {

/// n / d and n % d for n < 2^31 by one product: Granlund and Montgomery, "Division by invariant integers using
/// multiplication", PLDI 1994, section 4.
class Divider {
public:
  Divider() = default;
  /// 0 < d < 2^31.
  explicit Divider(uint32_t d) : d(d) {
    while (shift < 32 && (uint64_t{1} << shift) < d)
      ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  ZC_HD uint32_t quotient(uint32_t n) const {
    auto high = static_cast<uint32_t>(static_cast<uint64_t>(n) * factor >> 32);
    return static_cast<uint32_t>((static_cast<uint64_t>(high) + n) >> shift);
  }
  ZC_HD uint32_t divisor() const { return d; }

private:
  uint32_t d = 1, factor = 1, shift = 0;
};

} // namespace zc::cuda
