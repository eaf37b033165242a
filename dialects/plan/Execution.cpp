//===- Execution.cpp - the numbers of a plan as a value, and back -------------------------===//

#include "dialects/plan/Execution.h"
#include "dialects/plan/Plan.h"

using namespace mlir;
using namespace zc::plan;

Execution zc::plan::executionOf(ModuleOp module) {
  Execution execution;
  auto attr = module->getAttrOfType<ExecutionAttr>(ExecutionAttr::name);
  if (!attr)
    return execution;
  execution.zeroStage = attr.getZeroStage();
  execution.accumulation = attr.getAccumulation();
  execution.vertical = bool(attr.getVertical());
  if (attr.getDelayAfter() >= 0)
    execution.delayAfter = attr.getDelayAfter();
  if (attr.getFlops())
    execution.flops = attr.getFlops().getValueAsDouble();
  execution.deviceBudget = attr.getDeviceBudget();
  execution.hostBudget = attr.getHostBudget();
  execution.nvmeBudget = attr.getNvmeBudget();
  return execution;
}

void zc::plan::setExecution(ModuleOp module, const Execution &execution) {
  Builder builder(module.getContext());
  module->setAttr(ExecutionAttr::name,
                  ExecutionAttr::get(builder.getContext(), execution.zeroStage, execution.accumulation,
                                     execution.vertical ? builder.getUnitAttr() : UnitAttr(),
                                     execution.delayAfter.value_or(-1), builder.getF64FloatAttr(execution.flops),
                                     execution.deviceBudget, execution.hostBudget, execution.nvmeBudget));
}
