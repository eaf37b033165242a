//===- Filled.h - what buckets keep and nobody has written ----------------------------===//
#pragma once

#include "runtime/exec/Executor.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace zc::train {

/// Bytes of persistent slices that are written before the first step.
class Filled {
public:
  /// Bytes [first, end) of a slice; they may lie over others.
  void add(uint32_t slice, int64_t first, int64_t end) { ranges[slice].emplace_back(first, end); }
  /// Zeros in all else that buckets keep: padding, moments, what gradients lost.
  Status clearRest(RankExecutor &executor);

private:
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> ranges;
};

} // namespace zc::train
