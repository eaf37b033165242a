//===- Recording.h - when the steps of a plan ran, in some training steps ---------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/Options.h"

#include <mutex>
#include <vector>

namespace zc::train {

/// Collects the events of the steps that `--trace FROM:TO` and `--profile FROM:TO` name, of all ranks.
class Recording {
public:
  /// Tells an executor which of a run's `steps` are recorded, and to keep all of their events, at most a million per
  /// queue (the newest).
  static void configure(const planpb::Plan &plan, const RunOptions &options, int64_t steps, ExecutorOptions &executor);
  /// The last step to be recorded is over.
  static bool isDue(const RunOptions &options, int64_t step);
  /// Called by every rank then, or when its run ends before.
  void collect(const RunOptions &options, RankExecutor &executor);
  /// What all ranks traced, as ChromeTrace.h has it. Nothing when nothing was: what is there stays. Errors: io.
  Status writeTrace(const planpb::Plan &plan, const RunOptions &options, const std::string &path) const;
  /// What the first rank of this process ran in `steps`, a copy.
  std::vector<TraceEvent> eventsOfFirst(const StepRange &steps) const;

private:
  struct Events {
    int rank = 0;
    std::vector<TraceEvent> events;
  };
  std::mutex lock;
  std::vector<Events> collected;
};

} // namespace zc::train
