//===- Metrics.h - metrics.jsonl ------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zc::train {

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
};

/// One line of JSON without the newline, numbers in full precision (they read back as the same doubles); NaN and
/// infinities, which JSON has not, are null. Allocates nothing: the text lies in `buffer`.
std::string_view toJson(const StepRecord &record, std::array<char, 512> &buffer);

/// The file of these lines. A disk that is full must not end a training: after the first failure nothing more is
/// written and `failure` says why.
class MetricsFile {
public:
  MetricsFile() = default;
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;
  ~MetricsFile();

  /// Starts the file anew, or keeps the lines up to `lastStep` when a run continues. Errors: io.
  Status open(const std::string &path, int64_t lastStep);
  void append(const StepRecord &record);
  /// The same lines under the same name again, where somebody has removed the file. Errors: io.
  Status putBack();
  int failure() const { return errnum; } ///< errno, 0: none

private:
  Status openToAppend();
  std::string path;
  int fd = -1;
  int errnum = 0;
};

} // namespace zc::train
