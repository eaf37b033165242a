//===- Evaluate.h - a data set once through a forward-only plan ---------------------------------===//
//
// Which rank computes which batch, and what the loss is the mean of, stands in EvalLoss.h. Samples at the end whose
// batch is not in the loss have their rows among the outputs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/train/Options.h"
#include "runtime/train/RunControl.h"

namespace zc::train {

/// Runs a verified forward-only plan over the data. Where ranks live in several processes, all of them call this; rank
/// 0's returns the report. Errors: those of the parts; mismatch when the plan trains or no batch is in the loss;
/// numeric when a loss is not finite; preempted after a stop. No file is left then.
Result<EvalReport> evaluate(const planpb::Plan &plan, const EvalOptions &options, const RunControl &control,
                            RunObserver &observer);

} // namespace zc::train
