//===- Chains.h - which sources add to each row, in index order ---------------===//
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace zc::cpu {

/// For scatter-adds: a list of source numbers per target row. Gives each target one writer, and sums in index order
/// however rows are split over threads.
class Chains {
public:
  Chains(int64_t rows, int64_t sources) : head(static_cast<size_t>(rows), -1), next(static_cast<size_t>(sources), -1) {}

  void clear() { std::fill(head.begin(), head.end(), -1); }
  /// Sources must be added from the last to the first.
  void add(int64_t row, int64_t source) {
    next[static_cast<size_t>(source)] = head[static_cast<size_t>(row)];
    head[static_cast<size_t>(row)] = source;
  }
  /// First source of a row, or -1; then the one after `source`.
  int64_t first(int64_t row) const { return head[static_cast<size_t>(row)]; }
  int64_t after(int64_t source) const { return next[static_cast<size_t>(source)]; }

private:
  std::vector<int64_t> head, next;
};

} // namespace zc::cpu
