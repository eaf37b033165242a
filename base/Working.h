//===- Working.h - what a thread computes -----------------------------------------------------===//
//
// A kernel that never returns calls nothing of ours either. Who runs one after the other says which it is at, at the
// cost of two stores each; a watchdog looks now and then whether it is still the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Blocking.h"
#include "base/SeenCount.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace zc {

/// One line of work of a rank. `begin` and `end` are one thread's at a time.
class Working {
public:
  /// `name(what)`: "computing \"gelu\" of node ...", asked from another thread while the object lives.
  Working(int rank, std::function<std::string(uint32_t what)> name);
  Working(const Working &) = delete;
  Working &operator=(const Working &) = delete;
  ~Working();

  /// At `what` < 2^32 - 1 from now on.
  void begin(uint32_t what, int64_t step) {
    this->step.store(step, std::memory_order_relaxed);
    sign.store(++times << 32 | (what + 1), std::memory_order_relaxed);
  }
  void end() { sign.store(0, std::memory_order_relaxed); }

private:
  friend std::vector<BlockedThread> workingThreads(int64_t);
  const int rank;
  const std::function<std::string(uint32_t)> name;
  std::atomic<uint64_t> sign{0}; ///< how often it began, and what; 0: at nothing
  std::atomic<int64_t> step{-1};
  uint64_t times = 0;
  SeenCount seen; ///< of `sign`; under the table's lock
};

/// Those that have been at something for more than `ns`, counted from the first call of this while they were. Allocates
/// only where it finds one.
std::vector<BlockedThread> workingThreads(int64_t ns);

} // namespace zc
