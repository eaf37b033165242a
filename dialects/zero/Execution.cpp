//===- Execution.cpp - the execution as a value, and back ---------------------------------===//

#include "dialects/zero/Execution.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

static constexpr StringLiteral kMicroStep = "zero.micro_step";

LogicalResult ExecutionAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stage, int64_t accumulation,
                                    UnitAttr, int64_t delayAfter) {
  // execution_c1
  if (stage < 0 || stage > 3 || accumulation < 1 || delayAfter < -1)
    return emitError() << "[execution_c1] there is no execution of stage " << stage << " in " << accumulation
                       << " micro-steps, with updates delayed after " << delayAfter << " steps";
  return success();
}

Execution zc::zero::executionOf(ModuleOp module) {
  Execution execution;
  auto attr = module->getAttrOfType<ExecutionAttr>(ExecutionAttr::name);
  if (!attr)
    return execution;
  execution.stage = attr.getStage();
  execution.accumulation = attr.getAccumulation();
  execution.vertical = bool(attr.getVertical());
  if (attr.getDelayAfter() >= 0)
    execution.delayAfter = attr.getDelayAfter();
  return execution;
}

void zc::zero::setExecution(ModuleOp module, const Execution &execution) {
  MLIRContext *context = module.getContext();
  module->setAttr(ExecutionAttr::name, ExecutionAttr::get(context, execution.stage, execution.accumulation,
                                                          execution.vertical ? UnitAttr::get(context) : UnitAttr(),
                                                          execution.delayAfter.value_or(-1)));
}

int64_t zc::zero::accumulationOf(ModuleOp module) { return executionOf(module).accumulation; }

int64_t zc::zero::microExecutionsOf(ModuleOp module) {
  Execution execution = executionOf(module);
  return execution.vertical ? 1 : execution.accumulation;
}

int64_t zc::zero::microStepsOf(ModuleOp module) { return accumulationOf(module) / microExecutionsOf(module); }

IntegerAttr zc::zero::microStepOf(Operation *op) { return op->getAttrOfType<IntegerAttr>(kMicroStep); }

void zc::zero::setMicroStep(Operation *op, int64_t micro) {
  op->setAttr(kMicroStep, Builder(op->getContext()).getI64IntegerAttr(micro));
}
