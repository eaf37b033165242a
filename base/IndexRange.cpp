//===- IndexRange.cpp - what an input may hold whose elements are positions or labels -----===//
#include "base/IndexRange.h"

#include <algorithm>

namespace zc {

int64_t IndexRange::firstOutside(const int64_t *values, int64_t n) const {
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (int64_t i = 0; i < n; ++i) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  if (least >= lowest && most < limit)
    return -1;
  for (int64_t i = 0; i < n; ++i)
    if (!holds(values[i]))
      return i;
  return -1;
}

void IndexRange::meet(const IndexRange &other) {
  if (!isKnown()) {
    *this = other;
  } else if (other.isKnown()) {
    if (!ignored || !other.holds(*ignored))
      ignored = other.ignored && holds(*other.ignored) ? other.ignored : std::nullopt;
    lowest = std::max(lowest, other.lowest);
    limit = std::min(limit, other.limit);
    isLabel |= other.isLabel;
  }
}

std::string IndexRange::complaint(int64_t value) const {
  if (value < lowest)
    return lowest == 0 ? "is negative" : "is below " + std::to_string(lowest);
  return (isLabel ? "is not below the number of classes, " : "is not below the vocabulary of ") + std::to_string(limit);
}

} // namespace zc
