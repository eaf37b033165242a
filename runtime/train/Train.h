//===- Train.h - a run from the first weights to the last -----------------------------------===//
#pragma once

#include "runtime/train/Options.h"
#include "runtime/train/RunControl.h"

namespace zc::train {

/// Runs a verified plan: metrics.jsonl, checkpoints, and at the end the checkpoint `out`/final. Everything that can be
/// checked is checked before the first step. Where ranks live in several processes, all of them call this; the folder
/// is shared, rank 0's process writes what all have in common and returns the report.
/// Errors: those of the parts; numeric when the loss or, beyond what the loss scale can mend, gradients
/// are not finite (the step is in metrics.jsonl); preempted after a
/// stop, with a checkpoint. They are the same in all processes unless control.ranks->failure() says that one failed.
Result<RunReport> train(const planpb::Plan &plan, const RunOptions &options, const RunControl &control,
                        RunObserver &observer);

} // namespace zc::train
