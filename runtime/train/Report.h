//===- Report.h - what a run tells of itself ------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/Metrics.h"

#include <cstdint>
#include <optional>
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
struct EvalReport : JobReport {
  std::optional<double> loss; ///< nothing when the plan has none
  bool isLikelihood = false;  ///< exp(loss) is a perplexity
  int64_t batches = 0;        ///< in the loss
  int64_t leftOut = 0;        ///< of `samples`, those that are not in the loss
  std::string outputs;        ///< file; empty: none
};
/// One JSON object without a newline.
std::string toJson(const RunReport &report);
std::string toJson(const EvalReport &report);

/// Of this process, with so many ranks.
class MemoryWatch {
public:
  MemoryWatch(const planpb::Plan &plan, int ranks);
  /// What to warn of, the first time that it has had noticeably more than planned; empty otherwise. Costs one call of
  /// the system, and no memory before that.
  std::string look();
  void fill(JobReport &report) const;
  /// What the process has had so far does not count; false where the system counts on.
  static bool forgetPeak();
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

} // namespace zc::train
