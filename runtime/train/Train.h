//===- Train.h - a run from the first weights to the last -----------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Options.h"

#include <atomic>
#include <string>
#include <vector>

namespace zc::train {

/// What is known before the first step.
struct RunSummary {
  std::string out;       ///< folder
  int64_t firstStep = 1; ///< greater when resumed
  int64_t steps = 0;     ///< the last one
  int worldSize = 1, threads = 1;
  int64_t samplesPerStep = 0;
  int64_t tokensPerSample = 0; ///< 0: samples are not made of tokens
};

/// What is known after the last.
struct RunReport {
  StepRecord last;
  int64_t steps = 0;  ///< done in this run
  double seconds = 0; ///< of those steps
  int64_t samples = 0, tokens = 0;
  std::vector<ArenaUse> arenas;              ///< the largest of any rank
  Traffic traffic;                           ///< of rank 0's steps, all of them
  std::optional<uint64_t> steadyAllocations; ///< heap allocations of the process in the steps after the second
  std::string out, final;                    ///< folders
};
/// One JSON object without a newline.
std::string toJson(const RunReport &report);

/// Told of the run's progress, on rank 0's thread. `step` must not allocate if allocations are to be counted as zero.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  virtual void starting(const RunSummary &) {}
  virtual void step(const StepRecord &) {}
  virtual void note(const std::string &) {} ///< something worth a line: saved, skipped a broken checkpoint
};

/// Doors to the process that runs the training.
struct RunControl {
  /// Set when the run shall finish its step, save and end with Code::preempted.
  const std::atomic<int> *stop = nullptr;
  /// Heap allocations so far; null: not counted.
  uint64_t (*allocations)() = nullptr;
};

/// Runs a verified plan: ranks as threads, metrics.jsonl, checkpoints, and at the end the checkpoint `out`/final.
/// Everything that can be checked is checked before the first step. Errors: those of the parts; numeric when the loss
/// is not finite (its step is in metrics.jsonl); preempted after a stop, with a checkpoint.
Result<RunReport> train(const planpb::Plan &plan, const RunOptions &options, const RunControl &control,
                        RunObserver &observer);

/// What the plan says about data; token ids are bounded by the rows of the table that input_ids is looked up in.
data::BatchSpec batchOf(const planpb::Plan &plan);

} // namespace zc::train
