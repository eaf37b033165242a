//===- Execution.h - how a step is spread over ranks and time -------------------===//
#pragma once

#include "dialects/zero/Zero.h"

namespace zc::zero {

/// `zero.execution` of a module. Who sets one field takes the value, sets it and puts it back.
struct Execution {
  int64_t stage = 0;
  int64_t accumulation = 1;          ///< micro-steps per step
  bool vertical = false;             ///< the micro program has the operations of all of them
  std::optional<int64_t> delayAfter; ///< ordinary steps before updates are delayed by one; none: they are not
};
Execution executionOf(mlir::ModuleOp module);
void setExecution(mlir::ModuleOp module, const Execution &execution);

/// Of an operation whose kernel depends on the micro-step, in a vertical program: which one it is of; null elsewhere.
mlir::IntegerAttr microStepOf(mlir::Operation *op);
void setMicroStep(mlir::Operation *op, int64_t micro);

} // namespace zc::zero
