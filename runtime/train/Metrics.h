//===- Metrics.h - metrics.jsonl ------------------------------------------------------------===//
#pragma once

#include "base/Descriptor.h"
#include "base/Status.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zc::train {

/// What an evaluation found.
struct EvalRecord {
  double loss = 0;           ///< mean over the evaluated data
  bool isLikelihood = false; ///< exp(loss) is a perplexity
  double seconds = 0;
  int64_t samples = 0, leftOut = 0; ///< in the loss; at the end, and not in it
};

/// What evaluations have found so far.
struct EvalHistory {
  uint64_t data = 0;    ///< fingerprint
  int64_t step = 0;     ///< after which the last one was; 0: there was none
  double loss = NAN;    ///< its
  double best = NAN;    ///< the lowest
  int64_t bestStep = 0; ///< its; 0: none
  int64_t since = 0;    ///< evaluations since

  /// Is `loss`, after `at`, the lowest?
  bool add(int64_t at, double found) {
    step = at;
    loss = found;
    bool isLower = found < best || (bestStep == 0 && std::isfinite(found));
    since = isLower ? 0 : since + 1;
    best = isLower ? found : best;
    bestStep = isLower ? at : bestStep;
    return isLower;
  }
};

/// What a step did.
struct StepRecord {
  int64_t step = 0;               ///< from 1
  double loss = 0;                ///< mean over ranks and micro-steps
  std::optional<double> gradNorm; ///< global L2 norm before clipping
  double lr = 0;
  double seconds = 0;
  int64_t samples = 0;             ///< of all ranks and micro-steps
  bool skipped = false;            ///< gradients were not finite: nothing was updated
  std::optional<double> lossScale; ///< of this step, where the plan scales
  std::optional<EvalRecord> eval;  ///< after this step, where it was due
};

/// One line of JSON without the newline, numbers in full precision (they read back as the same doubles); NaN and
/// infinities, which JSON has not, are null. Allocates nothing: the text lies in `buffer`.
std::string_view toJson(const StepRecord &record, std::array<char, 512> &buffer);

/// The file of these lines. A disk that is full must not end a training: after the first failure nothing more is
/// written and `failure` says why.
class MetricsFile {
public:
  /// Starts the file anew, or keeps the lines up to `lastStep` when a run continues. `completes`: the last of them gets
  /// the evaluation of the next record, which is of its step. Where lines go, the file as it was is kept as `aside`, if
  /// that is a name. Errors: io.
  Status open(const std::string &path, int64_t lastStep, bool completes = false, const std::string &aside = {});
  void append(const StepRecord &record);
  /// Whether somebody has removed the file: its lines would be lost.
  bool isGone() const;
  /// The same lines under the same name again, where somebody has removed the file. Errors: io.
  Status putBack();
  int failure() const { return errnum; } ///< errno, 0: none

private:
  Status openToAppend();
  void write(std::string_view line);

  std::string path;
  std::string begun;   ///< the last line, which lacks its evaluation, without its end
  int64_t begunAt = 0; ///< where it stands
  Descriptor fd;
  int errnum = 0;
};

} // namespace zc::train
