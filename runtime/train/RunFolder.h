//===- RunFolder.h - the folder a run writes into ----------------------------------------------===//
#pragma once

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Options.h"

#include <optional>

namespace zc::train {

/// The folder of a run, held alone: a second run in it is refused while this object lives.
class RunFolder {
public:
  RunFolder() = default;
  RunFolder(RunFolder &&other) noexcept : path(std::move(other.path)), lock(other.lock) { other.lock = -1; }
  RunFolder &operator=(RunFolder &&other) noexcept;
  ~RunFolder();

  /// Makes the folder, locks it, tries that files can be written, and sweeps what a killed run left half-written.
  /// Errors: usage (another run has it), io.
  static Result<RunFolder> open(const std::string &path);
  const std::string &name() const { return path; }

private:
  std::string path;
  int lock = -1;
};

/// `options.out`, or runs/<name of the model>.
std::string outputFolder(const RunOptions &options, const planpb::Plan &plan);

/// The checkpoint to continue from, verified; none for a fresh start. `expected` is what this run would write.
/// `resume` "auto" takes the newest that is whole, "final" included; each broken one that it passes over is added to
/// `skipped`. Errors: usage (a fresh start where checkpoints lie), corrupt, mismatch (other plan, ranks or data).
Result<std::optional<Manifest>> findCheckpoint(const std::string &out, const std::string &resume,
                                               const Manifest &expected, std::vector<std::string> &skipped);

} // namespace zc::train
