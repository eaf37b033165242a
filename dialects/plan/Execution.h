//===- Execution.h - the numbers of a plan that are no operations --------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace zc::plan {

/// `plan.execution` of a module; plan.proto has the fields' comments.
struct Execution {
  int64_t zeroStage = 0, accumulation = 1;
  bool vertical = false;
  std::optional<int64_t> delayAfter;
  double flops = 0;                                         ///< of a step
  int64_t deviceBudget = 0, hostBudget = 0, nvmeBudget = 0; ///< bytes; 0: none, or not said
};
Execution executionOf(mlir::ModuleOp module);
void setExecution(mlir::ModuleOp module, const Execution &execution);

} // namespace zc::plan
