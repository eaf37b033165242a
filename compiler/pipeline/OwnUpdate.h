//===- OwnUpdate.h - the update rule of a model -----------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/StateSize.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc {

/// A model with a rule of its own is trained by it, unless --optimizer says otherwise: `grad` becomes it. Of flags that
/// the rule does not have, it is warned.
void adoptOptimizer(mlir::ModuleOp module, const CompileOptions &options, GradOptions &grad);

/// After grad: the plan's summary of the rule; parameters may have a decay of their own. Errors: usage, when nothing is
/// trained.
Status recordOptimizer(mlir::ModuleOp module, const GradOptions &grad, const std::string &model);

/// What the parameters that train take, and what their rule keeps of them.
StateSize measureState(mlir::ModuleOp imported, const GradOptions &grad);

} // namespace zc
