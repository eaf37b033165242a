//===- ParamGroups.h - what the update of some parameters has of its own ------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/import/parameters/Globs.h"
#include "dialects/graph/Graph.h"

namespace zc::importer {

/// Gives each trainable parameter what the groups say: each number from the most special glob that says it, as
/// Selections, but a weight decay of 0 to those of `noDecay`. It is added to the evidence. Errors: usage (a glob that
/// is of no parameter that trains).
Status applyParamGroups(mlir::ModuleOp module, const std::vector<ParamGroup> &groups,
                        const std::vector<std::string> &noDecay);

} // namespace zc::importer
