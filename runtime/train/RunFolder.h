//===- RunFolder.h - the folder a run writes into ----------------------------------------------===//
#pragma once

#include "base/Descriptor.h"
#include "runtime/plan/plan.pb.h"
#include "runtime/train/Options.h"

#include <string>
#include <vector>

namespace zc::train {

/// What runs write into their folder beside checkpoints.
constexpr const char *kMetricsFile = "metrics.jsonl", *kEvaluationFile = "eval.json", *kProfilePage = "profile.html";
constexpr const char *kRecorderDump = "flight-recorder.json";
constexpr const char *kLock = ".lock";
constexpr const char *kFlight = ".flight", *kEvaluationFlight = ".flight-eval"; ///< where processes share recorders
/// Those of each process, by its first rank.
std::string traceFile(int rank);
std::string crashFile(int rank);

/// Paths in `out` that a training writes, there or not, and those of what is there that it replaces or sweeps;
/// checkpoints themselves where it `replacesCheckpoints`.
std::vector<std::string> filesOfTraining(const std::string &out, bool replacesCheckpoints);
std::vector<std::string> filesOfEvaluation(const std::string &out);

/// The folder of a run, held alone: a second run in it is refused while this object lives.
class RunFolder {
public:
  RunFolder() = default;
  RunFolder(RunFolder &&other) = default;
  RunFolder &operator=(RunFolder &&other) noexcept;
  /// Folders that were made and have stayed empty go again: a run that was refused leaves nothing.
  ~RunFolder();
  /// Makes the folder, locks it, and tries that files can be written. Errors: usage (another run has it,
  /// it is a checkpoint), io.
  static Result<RunFolder> open(const std::string &path);
  const std::string &name() const { return path; }
  /// Whether what was opened is not there any more under its name: somebody has removed or moved it.
  bool isGone() const;

private:
  std::string path;
  Descriptor lock;
  std::string made; ///< the outermost folder that was not there before; empty: all were
};

/// `options.out`, or runs/<name of the model>.
std::string outputFolder(const RunOptions &options, const planpb::Plan &plan);

/// Whether steps of a run lie in `out`/metrics.jsonl.
bool hasMetrics(const std::string &out);
/// Whether a run lies in `out` that a new one would overwrite: checkpoints, or steps in metrics.jsonl. Errors: usage,
/// with the three ways on; io.
Status checkFresh(const std::string &out);

} // namespace zc::train
