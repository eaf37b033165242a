//===- ZeroGraph.cpp - operations of the graph level in a schedule ---------------------------===//
//
// A kernel answers from what KernelOp says, whatever dialect it is of. The few that are no kernels have models of their
// own.
//
//===----------------------------------------------------------------------===//

#include "dialects/graph/ModuleAttrs.h"
#include "dialects/zero/Zero.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

namespace {

/// A constant as its kernel takes it: a splat as a number `value`, other elements as bytes `data`.
void setConstant(Step &step, ElementsAttr elements) {
  if (!elements.isSplat() || elements.getNumElements() == 0) {
    step.set("data", elements);
    return;
  }
  Builder builder(elements.getContext());
  Attribute value = elements.getSplatValue<Attribute>();
  if (auto real = dyn_cast<FloatAttr>(value)) {
    step.set("value", builder.getF64FloatAttr(real.getValueAsDouble()));
    return;
  }
  bool isBool = elements.getElementType().isInteger(1);
  auto integer = cast<IntegerAttr>(value).getValue();
  step.set("value", builder.getI64IntegerAttr(isBool ? integer.getZExtValue() : integer.getSExtValue()));
}

struct KernelModel : ScheduledOp::ExternalModel<KernelModel, graph::KernelOp> {
  Work getWork(Operation *op) const {
    auto kernel = cast<graph::KernelOp>(op);
    return graph::isView(op) ? Work::none() : Work::compute(Tier::device, kernel.getBytes(), kernel.getFlops());
  }

  std::optional<Step> getStep(Operation *op, StepContext &) const {
    if (graph::isView(op))
      return std::nullopt;
    Step step(cast<graph::KernelOp>(op).getKernelName());
    for (Value operand : op->getOperands())
      step.input(operand);
    for (Value result : op->getResults())
      step.output(result);
    for (NamedAttribute attribute : op->getAttrs())
      if (auto elements = dyn_cast<ElementsAttr>(attribute.getValue()))
        setConstant(step, elements);
      else if (!isNote(attribute) && !isa<TypeAttr>(attribute.getValue()))
        step.attributes.push_back(attribute);
    return step;
  }

  Workspace getWorkspace(Operation *op, const ScheduleContext &context) const {
    return {cast<graph::KernelOp>(op).getWorkspaceBytes(graph::targetOf(context.module)), Tier::device};
  }

  ResultPlace getResultPlace(Operation *op, unsigned, const ScheduleContext &) const {
    ResultPlace place;
    if (int viewed = cast<graph::KernelOp>(op).getViewOperand(); viewed >= 0)
      place.within = op->getOperand(static_cast<unsigned>(viewed));
    return place;
  }

  bool dependsOnMicroStep(Operation *op) const { return cast<graph::KernelOp>(op).dependsOnMicroStep(); }
};

/// A stored tensor is read where it is.
struct ReadModel : ScheduledOp::ExternalModel<ReadModel, graph::ReadOp> {
  Work getWork(Operation *) const { return Work::none(); }
  std::optional<Step> getStep(Operation *, StepContext &) const { return std::nullopt; }
  ResultPlace getResultPlace(Operation *op, unsigned, const ScheduleContext &) const {
    ResultPlace place;
    place.state = State::parameter(cast<graph::ReadOp>(op).getParameterAttr());
    return place;
  }
};

struct AssignModel : ScheduledOp::ExternalModel<AssignModel, graph::AssignOp> {
  Work getWork(Operation *) const { return Work::compute(Tier::device, 0); }
  std::optional<Step> getStep(Operation *op, StepContext &) const {
    auto assign = cast<graph::AssignOp>(op);
    return Step("copy")
        .input(assign.getValue())
        .operand({Access::write, {}, getAssignedState(op), cast<RankedTensorType>(assign.getValue().getType())});
  }
  State getAssignedState(Operation *op) const { return State::parameter(cast<graph::AssignOp>(op).getParameterAttr()); }
};

struct OutputModel : ScheduledOp::ExternalModel<OutputModel, graph::OutputOp> {
  Work getWork(Operation *) const { return Work::compute(Tier::device, 0); }
  std::optional<Step> getStep(Operation *op, StepContext &context) const {
    return Step("store_output")
        .input(cast<graph::OutputOp>(op).getValue())
        .set("output", Builder(op->getContext()).getI64IntegerAttr(context.numOutputs++));
  }
};

struct ReturnModel : ScheduledOp::ExternalModel<ReturnModel, graph::ReturnOp> {
  Work getWork(Operation *) const { return Work::none(); }
  std::optional<Step> getStep(Operation *, StepContext &) const { return std::nullopt; }
};

} // namespace

ScheduledOp::Concept *ScheduledOp::getInterfaceFor(Operation *op) {
  if (Concept *own = Base::getInterfaceFor(op))
    return own;
  static KernelModel kernels;
  return isa<graph::KernelOp>(op) ? &kernels : nullptr;
}

void zc::zero::attachScheduleOfGraph(MLIRContext &context) {
  graph::ReadOp::attachInterface<ReadModel>(context);
  graph::AssignOp::attachInterface<AssignModel>(context);
  graph::OutputOp::attachInterface<OutputModel>(context);
  graph::ReturnOp::attachInterface<ReturnModel>(context);
}
