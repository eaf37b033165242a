//===- Budgets.h - what the tiers may take ----------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// Hard limits in bytes per rank; 0: none.
struct Budgets {
  uint64_t device = 0, host = 0, nvme = 0;

  bool operator==(const Budgets &other) const {
    return device == other.device && host == other.host && nvme == other.nvme;
  }
};

} // namespace zc
