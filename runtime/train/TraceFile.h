//===- TraceFile.h - a Chrome trace of some steps ------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/Options.h"

#include <mutex>
#include <vector>

namespace zc::train {

/// Collects the events of the steps that `--trace FROM:TO` names, of all ranks, for chrome://tracing and Perfetto.
class TraceFile {
public:
  /// Events per queue that an executor must keep so that none of the steps is lost, at most a million (the newest), of
  /// a run of `steps`; 0 without a trace.
  static size_t capacity(const planpb::Plan &plan, const RunOptions &options, int64_t steps);
  /// The last step to be traced is over.
  static bool isDue(const RunOptions &options, int64_t step) {
    return options.traceFrom > 0 && step == options.traceTo;
  }
  /// Called by every rank then, or when its run ends before.
  void collect(const RunOptions &options, RankExecutor &executor);
  /// As ChromeTrace.h has it. Nothing when nothing was collected. Errors: io.
  Status write(const planpb::Plan &plan, const std::string &path) const;

private:
  struct Events {
    int rank = 0;
    std::vector<TraceEvent> events;
  };
  std::mutex lock;
  std::vector<Events> collected;
};

} // namespace zc::train
