//===- Resume.h - where a run goes on ------------------------------------------------------------===//
#pragma once

#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Options.h"

#include <functional>
#include <optional>

namespace zc::train {

using Told = std::function<void(const std::string &)>;

/// The checkpoints that may be meant: one, or all of a run, newest first.
class CheckpointChoice {
public:
  /// `path`: a checkpoint's folder or a run's. Errors: badInput (none there), io.
  static Result<CheckpointChoice> of(const std::string &path);
  /// The same of "auto", which means what `out` holds; nothing where that is none at all.
  static Result<std::optional<CheckpointChoice>> toResume(const std::string &out, const std::string &resume);

  /// Whether a run was named, whose checkpoints may come and go while it goes on.
  bool isOfRun() const { return !run.empty(); }
  /// Newest first; at least one.
  const std::vector<std::string> &all() const { return folders; }

  /// The newest left that `verify` has nothing against. `passed` is told of each damaged one on the way; what only
  /// could not be read is never passed over, and of a run that removes them meanwhile they are listed anew. Errors:
  /// corrupt (it, or all there are), mismatch (another format), io.
  Result<Manifest> newest(const std::function<Status(const Manifest &)> &verify, const Told &passed);
  /// The one that `newest` gave turned out to be wrong. Errors: `why`, where nothing else can be meant.
  Status passOver(const Error &why, const Told &passed);

private:
  std::string run; ///< its folder; empty where one checkpoint was named
  std::vector<std::string> folders;
  size_t at = 0;
};

/// Reads a checkpoint that was listed, and verifies it. Where `replaced`, what was found wrong is no fault of its:
/// meanwhile the run that it is of has removed it, or put another one in its place.
Result<Manifest> readVerified(const std::string &folder, const std::function<Status(const Manifest &)> &verify,
                              bool &replaced);

/// A checkpoint that was verified as a whole. Its weights stay readable when the run that it is of removes it.
struct OpenCheckpoint {
  Manifest manifest;
  io::SafetensorsFile weights;
};
/// The newest of them. Errors: those of CheckpointChoice.
Result<OpenCheckpoint> openCheckpoint(const std::string &path, const Told &passed);

/// Whether this run, which would write `expected`, may go on where `manifest` stands. Errors: mismatch, naming what
/// differs: the model's tensors, the optimizer's rule or (unless it was given anew) its rate, the seed, and (unless
/// they were said to change) the data and their order.
Status checkResumes(const planpb::Plan &plan, const Manifest &manifest, const Manifest &expected,
                    const RunOptions &options);

/// What is otherwise from now on, a line each: other strategy, other hyperparameters, state that starts anew.
std::vector<std::string> changesOf(const Manifest &manifest, const Manifest &expected);

} // namespace zc::train
