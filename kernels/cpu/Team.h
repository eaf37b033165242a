//===- Team.h - how many threads run a kernel's parts ------------------------------===//
#pragma once

#include <algorithm>
#include <climits>

namespace zc::cpu {

/// Kernels cut their work into parts by shapes and KernelSpec::threads alone, so their bits depend on nothing else.
/// While one of these lives, kernels of the calling thread run their parts on at most `threads` threads, itself among
/// them.
class TeamLimit {
public:
  explicit TeamLimit(int threads) : before(limit) { limit = threads; }
  ~TeamLimit() { limit = before; }
  TeamLimit(const TeamLimit &) = delete;
  TeamLimit &operator=(const TeamLimit &) = delete;

  static int of(int parts) { return std::min(parts, limit); }

private:
  static inline thread_local int limit = INT_MAX;
  int before;
};

} // namespace zc::cpu
