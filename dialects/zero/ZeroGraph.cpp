//===- ZeroGraph.cpp - operations of the graph level in a schedule ---------------------------===//
//
// A kernel answers from what KernelOp says, whatever dialect it is of. The few that are no kernels have models of their
// own.
//
//===----------------------------------------------------------------------===//

#include "base/TrafficClass.h"
#include "dialects/graph/KernelAttributes.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/zero/Zero.h"
#include "runtime/plan/StepNames.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

namespace {

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
    for (NamedAttribute attribute : graph::kernelAttributes(op))
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
    return Step(kStoreOutput)
        .input(cast<graph::OutputOp>(op).getValue())
        .set("output", Builder(op->getContext()).getI64IntegerAttr(context.numOutputs++));
  }
};

struct ReturnModel : ScheduledOp::ExternalModel<ReturnModel, graph::ReturnOp> {
  Work getWork(Operation *) const { return Work::none(); }
  std::optional<Step> getStep(Operation *, StepContext &) const { return std::nullopt; }
};

//===-- what ranks of the model axis exchange ------------------------------------===//

/// Names of the axes along which they do.
ArrayAttr modelAxis(Operation *op) { return Builder(op->getContext()).getStrArrayAttr(StringRef(kModelAxis)); }

/// zero-model-axis has made whole runs of bytes of what is gathered and scattered.
Step alongModelAxis(Operation *op, StringRef kernel, const StepContext &context, TrafficClass traffic) {
  Step step(kernel);
  step.axes = context.mesh.modelAxes();
  return step.set(kTrafficAttribute, StringAttr::get(op->getContext(), nameOf(traffic)))
      .input(op->getOperand(0))
      .output(op->getResult(0));
}

double sizeOfValue(Value value) { return static_cast<double>(bytesOf(value.getType())); }

int64_t membersOf(const ScheduleContext &context) { return context.mesh.size(context.mesh.modelAxes()); }

struct AllReduceModel : ScheduledOp::ExternalModel<AllReduceModel, graph::AllReduceOp> {
  /// As a reduce-scatter and a gather.
  Work getWork(Operation *op) const { return Work::collective(2 * sizeOfValue(op->getResult(0)), modelAxis(op)); }
  std::optional<Step> getStep(Operation *op, StepContext &context) const {
    return alongModelAxis(op, "all_reduce", context, TrafficClass::allReduce);
  }
  Workspace getWorkspace(Operation *op, const ScheduleContext &context) const {
    RankedTensorType type = storedType(op->getResult(0).getType());
    return context.stagingOfAllReduce(membersOf(context), type.getNumElements(), type.getElementType(), Tier::device);
  }
};

struct AllGatherModel : ScheduledOp::ExternalModel<AllGatherModel, graph::AllGatherOp> {
  Work getWork(Operation *op) const { return Work::collective(sizeOfValue(op->getResult(0)), modelAxis(op)); }
  std::optional<Step> getStep(Operation *op, StepContext &context) const {
    return alongModelAxis(op, "all_gather", context, TrafficClass::gather);
  }
  bool fillsDevice(Operation *) const { return true; } // a kept part's whole only where it is read
};

struct ReduceScatterModel : ScheduledOp::ExternalModel<ReduceScatterModel, graph::ReduceScatterOp> {
  Work getWork(Operation *op) const { return Work::collective(sizeOfValue(op->getOperand(0)), modelAxis(op)); }
  std::optional<Step> getStep(Operation *op, StepContext &context) const {
    return alongModelAxis(op, "reduce_scatter", context, TrafficClass::reduceScatter);
  }
  Workspace getWorkspace(Operation *op, const ScheduleContext &context) const {
    RankedTensorType type = storedType(op->getResult(0).getType());
    return context.stagingOfReduceScatter(membersOf(context), type.getNumElements(), type.getElementType(),
                                          Tier::device);
  }
};

/// A copy from where the rank's part is.
struct AllSliceModel : ScheduledOp::ExternalModel<AllSliceModel, graph::AllSliceOp> {
  Work getWork(Operation *op) const { return Work::compute(Tier::device, 2 * sizeOfValue(op->getResult(0))); }
  std::optional<Step> getStep(Operation *op, StepContext &context) const {
    Step step("copy");
    step.numInputs = 1;
    auto part = cast<RankedTensorType>(op->getResult(0).getType());
    step.operand({Access::read,
                  op->getOperand(0),
                  {},
                  part,
                  0,
                  stridesOf(context.mesh, context.mesh.modelAxes(), graph::bytesOf(part))});
    return step.output(op->getResult(0));
  }
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
  graph::AllReduceOp::attachInterface<AllReduceModel>(context);
  graph::AllGatherOp::attachInterface<AllGatherModel>(context);
  graph::ReduceScatterOp::attachInterface<ReduceScatterModel>(context);
  graph::AllSliceOp::attachInterface<AllSliceModel>(context);
}
