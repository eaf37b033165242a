//===- IndexRange.h - what an input may hold whose elements are positions or labels -------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zc {

struct IndexRange {
  int64_t lowest = 0, limit = 0;  ///< elements are in [lowest, limit); limit 0: not known
  std::optional<int64_t> ignored; ///< labels that do not count
  bool isLabel = false;

  bool isKnown() const { return limit > 0; }
  bool holds(int64_t value) const { return (value >= lowest && value < limit) || value == ignored; }
  /// The first of `n` values that is not in it, or -1.
  int64_t firstOutside(const int64_t *values, int64_t n) const;
  /// Both are meant.
  void meet(const IndexRange &other);
  /// "is not below the number of classes, 50257", "is negative"; of a value that is not in it.
  std::string complaint(int64_t value) const;
};

} // namespace zc
