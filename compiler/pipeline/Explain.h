//===- Explain.h - the offload that was chosen, and the others -------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/pipeline/CompileOptions.h"

namespace zc {

/// A table of placements of optimizer state and parameters: what each needs on every tier (within the budgets, where
/// without them it needs more), what it moves over every link, and the predicted seconds of a step; the one that
/// `options` ask for is marked. Each is compiled, none is written. The cut between device and host that ZeRO-Offload
/// proves optimal (arXiv 2101.06840, section 4.1) is the row "host / none": gradients go down once, parameters come up
/// once. Errors: those of compiling what `options` ask for; a placement that does not fit is none.
Result<std::string> explainOffload(const CompileOptions &options);

} // namespace zc
