//===- RunControl.h - a run and the process that it is in -----------------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"
#include "runtime/train/Report.h"

#include <atomic>
#include <functional>
#include <string>

namespace zc::train {

/// Told of the run's progress: of steps on rank 0's thread, of the rest on that of a rank of this process or of who
/// called. Each rank whose part of a save fails warns of it, all at once. `step` must not allocate if allocations are
/// to be counted as zero.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  virtual void starting(const RunSummary &) {}
  virtual void step(const StepRecord &) {}
  virtual void note(const std::string &) {} ///< something worth a line: saved, skipped a broken checkpoint
  virtual void warning(const std::string &text) { note(text); } ///< something that should be looked at
};

/// Doors to the process that runs the training.
struct RunControl {
  /// Set when the run shall finish its step, save and end with Code::preempted.
  const std::atomic<int> *stop = nullptr;
  /// Heap allocations so far; null: not counted.
  uint64_t (*allocations)() = nullptr;
  /// The ranks that this process runs; null: all of the plan's, as threads.
  RankGroup *ranks = nullptr;
  /// Says the error and ends the process with its code, at once and from any thread; null: there is no watchdog.
  std::function<void(const Error &)> end = {};
  /// A line to the user, from any thread; null: it is not said.
  std::function<void(const std::string &)> say = {};
};

} // namespace zc::train
