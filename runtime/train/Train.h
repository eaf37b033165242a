//===- Train.h - a run from the first weights to the last -----------------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"
#include "runtime/exec/Executor.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Options.h"

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace zc::train {

/// What is known before the first step.
struct RunSummary {
  std::string out;       ///< folder
  int64_t firstStep = 1; ///< greater when resumed
  int64_t steps = 0;     ///< the last one
  int worldSize = 1, threads = 1;
  std::string products; ///< how many a table decides, and its file; empty: none
  int64_t samplesPerStep = 0;
  int64_t tokensPerSample = 0; ///< 0: samples are not made of tokens
  bool evaluates = false;      ///< nothing is trained
  bool isLikelihood = false;   ///< of an evaluation: exp(loss) is a perplexity
};

/// What is known after the last, of a training or an evaluation.
struct JobReport {
  int64_t steps = 0;  ///< done in this run
  double seconds = 0; ///< of those steps
  int64_t samples = 0, tokens = 0;
  std::vector<ArenaUse> arenas;              ///< of rank 0
  uint64_t plannedMemory = 0;                ///< bytes of the device and host arenas of this process's ranks
  uint64_t residentMemory = 0;               ///< bytes this process had in memory at most, libraries and all
  Traffic traffic;                           ///< of rank 0's steps, all of them
  std::optional<double> issueSeconds;        ///< of the first rank (RankExecutor)
  std::optional<uint64_t> steadyAllocations; ///< heap allocations of the process in the steps after the second
  std::string out;                           ///< folder
};
struct RunReport : JobReport {
  StepRecord last;
  std::optional<EvalHistory> evaluations; ///< of a run that evaluates
  bool stoppedEarly = false;              ///< by them
  std::string final;                      ///< folder; empty: none
  std::string profile;                    ///< for people, where one was asked for
};
/// Of this process, with so many ranks.
class MemoryWatch {
public:
  MemoryWatch(const planpb::Plan &plan, int ranks);
  /// What to warn of, the first time that it has had noticeably more than planned; empty otherwise. Costs one call of
  /// the system, and no memory before that.
  std::string look();
  void fill(JobReport &report) const;
  /// For who waits for the first step: what a rank has, where there is so much of it that filling it takes minutes;
  /// empty otherwise.
  const std::string &large() const { return ofRank; }
  /// Bytes of the process's arenas.
  uint64_t plannedBytes() const { return planned; }

private:
  uint64_t planned = 0;
  std::string ofRank;
  bool hasWarned = false;
};
/// One JSON object without a newline.
std::string toJson(const RunReport &report);

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

/// Runs a verified plan: metrics.jsonl, checkpoints, and at the end the checkpoint `out`/final. Everything that can be
/// checked is checked before the first step. Where ranks live in several processes, all of them call this; the folder
/// is shared, rank 0's process writes what all have in common and returns the report.
/// Errors: those of the parts; numeric when the loss or, beyond what the loss scale can mend, gradients
/// are not finite (the step is in metrics.jsonl); preempted after a
/// stop, with a checkpoint. They are the same in all processes unless control.ranks->failure() says that one failed.
Result<RunReport> train(const planpb::Plan &plan, const RunOptions &options, const RunControl &control,
                        RunObserver &observer);

/// What the plan says about data; token ids are bounded by the rows of the table that input_ids is looked up in.
data::BatchSpec batchOf(const planpb::Plan &plan);

} // namespace zc::train
