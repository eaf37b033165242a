//===- Auto.h - the fastest plan within the budgets --------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"
#include "runtime/base/Status.h"

namespace zc {

/// What --auto may choose: that which no flag says.
struct Freedom {
  bool stage = true, recomputation = true, offloadOptimizer = true, offloadParam = true, offloadActivation = true,
       bucketSize = true;
};

struct AutoChoice {
  CompileOptions options;
  std::string text; ///< the flags chosen, and what else was tried
};

/// Compiles stages, recomputation and offload that are free and takes, of those that fit the budgets, the one that the
/// cost model (--machine) takes to be the fastest. Placements are tried in order of the bytes that they move between
/// tiers; those that move more than one that fits are not tried; where none fits, buckets become smaller. Ends after
/// about a minute. Micro-steps are taken to be rolled; whether the plan is, is decided afterwards. Errors: budget, as
/// of the options given, when nothing fits; those that have nothing to do with the choice.
Result<AutoChoice> chooseFastest(const CompileOptions &options, const Freedom &freedom);

} // namespace zc
