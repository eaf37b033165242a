//===- Resume.h - where a run goes on ------------------------------------------------------------===//
#pragma once

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Options.h"

#include <functional>
#include <optional>

namespace zc::train {

/// A checkpoint, verified: the folder itself or, of a run's folder, the newest that is whole. `passed` is told of each
/// damaged one on the way. Errors: corrupt (it, or all there are), mismatch (another format), badInput (none there),
/// io. What only could not be read is never passed over.
Result<Manifest> openCheckpoint(const std::string &path, const std::function<void(const std::string &)> &passed);

/// The checkpoint to go on from by `options.resume` ("auto", a checkpoint's or a run's folder); nothing where "auto"
/// finds none at all. Errors: those of openCheckpoint.
Result<std::optional<Manifest>> findCheckpoint(const std::string &out, const std::string &resume,
                                               const std::function<void(const std::string &)> &passed);

/// Whether this run, which would write `expected`, may go on where `manifest` stands. Errors: mismatch, naming what
/// differs: the model's tensors, the optimizer's rule or (unless it was given anew) its rate, the seed, and (unless
/// they were said to change) the data and their order.
Status checkResumes(const planpb::Plan &plan, const Manifest &manifest, const Manifest &expected,
                    const RunOptions &options);

/// What is otherwise from now on, a line each: other strategy, other hyperparameters, state that starts anew.
std::vector<std::string> changesOf(const Manifest &manifest, const Manifest &expected);

} // namespace zc::train
