//===- TwoLargest.h - room for one piece beside the next -----------------------------===//
#pragma once

#include <algorithm>
#include <cstdint>

namespace zc {

/// The sum of the two largest numbers of a range, 0 for those that are not there: what double buffering takes.
template <typename Range> int64_t twoLargest(Range &&bytes) {
  int64_t first = 0, second = 0;
  for (int64_t each : bytes) {
    second = std::max(second, std::min(first, each));
    first = std::max(first, each);
  }
  return first + second;
}

} // namespace zc
