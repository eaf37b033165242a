//===- MicroOrder.h - all micro-steps of a block before the next, where that is faster ------===//
#pragma once

#include "base/Status.h"
#include "compiler/pipeline/CompileOptions.h"

#include <functional>

namespace zc {

/// Seconds of a step of a plan with these options. Errors: those of its compilation.
using Prediction = std::function<Result<double>(const CompileOptions &)>;

/// `vertical` where each micro-step would fetch offloaded parameters anew and a plan that fetches them once for all is
/// expected to be a twentieth faster, or alone fits the budgets; else `rolled`.
MicroOrder fasterMicroOrder(const CompileOptions &options, const Prediction &predict);

} // namespace zc
