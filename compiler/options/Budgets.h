//===- Budgets.h - what the tiers may take ----------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// Bytes per rank. As limits 0 is none.
struct Budgets {
  int64_t device = 0, host = 0, nvme = 0;

  bool operator==(const Budgets &other) const {
    return device == other.device && host == other.host && nvme == other.nvme;
  }
};

} // namespace zc
