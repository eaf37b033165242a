//===- Auto.h - the fastest plan within the budgets --------------------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/pipeline/CompileOptions.h"

namespace zc {

struct AutoChoice {
  CompileOptions options;
  std::string text; ///< the flags chosen, and what else was tried
};

/// Leaves to the choice what no option gives: before `complete`, which else would find fault with the defaults.
void leaveOpen(CompileOptions &options);
/// After it: where no budget of the device is given, that of the machine named; which is said in `notes`. Errors: usage
/// (neither is).
Status takeBudget(CompileOptions &options, std::vector<std::string> &notes);

/// Compiles stages, recomputation and offload that no option gives and takes, of those that fit the budgets, the one
/// that the cost model (--machine) takes to be the fastest. Placements are tried in order of the bytes that they move
/// between tiers; those that move more than one that fits are not tried; where none fits, buckets become smaller, and
/// where still none does, ranks of a node share samples (the text says so: a step has fewer of them). The
/// number of plans is bounded by the operations that they compile; what cannot hold the model's state is not compiled.
/// Micro-steps are taken to be rolled; whether the plan is, is decided afterwards. Errors: budget, as of the options
/// given, when nothing fits; those that have nothing to do with the choice.
Result<AutoChoice> chooseFastest(const CompileOptions &options);

} // namespace zc
