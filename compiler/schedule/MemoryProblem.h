//===- MemoryProblem.h - offsets for buffers with lifetimes ------------------------===//
//
// The problem apart from its solution, after circt's Scheduling/Problems.h: a problem is filled in, `check`ed, solved
// by a free function, and the solution `verify`ed, whoever made it. All offsets are computed here, so that nothing is
// allocated, and nothing fragments, at run time (ZeRO-R's MD, arXiv 1910.02054 section 6.3, made absolute).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc {

/// One buffer: `bytes` that must exist at the positions [first, last] of the plan order.
struct MemoryRequest {
  std::string name;
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

/// Buffers of one arena. Offsets are multiples of `alignment`, and each takes a multiple of it.
class MemoryProblem {
public:
  static constexpr int64_t kAlignment = 256;

  std::vector<MemoryRequest> requests;
  std::vector<int64_t> offsets;   ///< the solution, one per request
  int64_t alignment = kAlignment; ///< bytes

  /// Bytes rounded up to the alignment.
  int64_t aligned(int64_t bytes) const;

  /// Is the input sound? On failure `error` says what is not.
  llvm::LogicalResult check(std::string &error) const;
  /// Is the solution legal: aligned, and no two buffers that live together share bytes?
  llvm::LogicalResult verify(std::string &error) const;

  /// End of the highest buffer.
  int64_t peak() const;
  /// Largest sum of (aligned) bytes live at one position: no solution is below it. `position` gets the place.
  int64_t lowerBound(int64_t *position = nullptr) const;
};

/// Places the largest buffers first, each in the smallest gap left by those it lives together with. O(n log n) spans of
/// occupied bytes are looked at where buffers lie side by side, as they mostly do.
void placeBySize(MemoryProblem &problem);

} // namespace zc
