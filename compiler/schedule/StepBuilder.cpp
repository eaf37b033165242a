//===- StepBuilder.cpp - the steps of operations of the zero level --------------------------===//

#include "compiler/schedule/StepBuilder.h"
#include "compiler/schedule/QueueAssignment.h"
#include "dialects/zero/Execution.h"
#include "runtime/plan/StepNames.h"

#include <cmath>

using namespace mlir;
using namespace zc;

static_assert(int(plan::Section::micro) == int(graph::Phase::micro) &&
              int(plan::Section::update) == int(graph::Phase::update) &&
              int(plan::Section::eval) == int(graph::Phase::eval));
static_assert(int(plan::Access::read) == int(zero::Access::read) &&
              int(plan::Access::write) == int(zero::Access::write) &&
              int(plan::Access::read_write) == int(zero::Access::readWrite));

StepBuilder::StepBuilder(ModuleOp module) : builder(module.getContext()), machine(machineOf(module)), context(module) {
  builder.setInsertionPointToEnd(module.getBody());
  for (auto slice : module.getOps<plan::SliceOp>())
    if (std::optional<plan::Metric> metric = slice.getMetric())
      metrics[static_cast<size_t>(*metric)] = FlatSymbolRefAttr::get(slice.getSymNameAttr());
  context.samePlace = [this](const zero::StepOperand &a, const zero::StepOperand &b) {
    plan::OperandAttr first = placeOf(a), second = placeOf(b);
    return first.getSlice() == second.getSlice() && first.getOffset() == second.getOffset() &&
           first.getStrides() == second.getStrides();
  };
}

FailureOr<plan::SectionOp> StepBuilder::lowerProgram(graph::ProgramOp program) {
  auto section = builder.create<plan::SectionOp>(program.getLoc(), static_cast<plan::Section>(program.getPhase()));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&section.getBody());
  publishing.clear();
  loadInputs(program);
  publishing = publishingOperations(program);
  for (Operation &op : program.getBlock())
    if (failed(lower(&op)))
      return failure();
  return section;
}

void StepBuilder::loadInputs(graph::ProgramOp program) {
  auto inputs = program->getAttrOfType<ArrayAttr>(placement::kInputs);
  const int64_t microSteps = program.getPhase() == graph::Phase::micro ? zero::microStepsOf(context.module) : 1;
  auto perMicroStep = static_cast<int64_t>(inputs.size()) / microSteps;
  for (auto [index, place] : llvm::enumerate(inputs)) {
    if (program.getBlock().getArgument(static_cast<unsigned>(index)).use_empty())
      continue; // needs no data
    auto number = static_cast<int64_t>(index);
    SmallVector<NamedAttribute> attributes{
        builder.getNamedAttr("input", builder.getI64IntegerAttr(number % perMicroStep))};
    if (microSteps > 1)
      attributes.push_back(builder.getNamedAttr("micro", builder.getI64IntegerAttr(number / perMicroStep)));
    plan::StepOp load = create(program, kLoadInput, 0, {place}, attributes);
    double bytes = static_cast<double>(graph::bytesOf(cast<plan::OperandAttr>(place).getType()));
    load.setSeconds(APFloat(machine.stepOverhead + bytes / machine.h2dBandwidth));
  }
}

LogicalResult StepBuilder::lower(Operation *op) {
  auto scheduled = dyn_cast<zero::ScheduledOp>(op);
  if (!scheduled)
    return op->emitOpError("becomes no step: it says neither by ScheduledOp nor by KernelOp what executes it");
  std::optional<zero::Step> step = scheduled.getStep(context);
  if (!step)
    return success();
  plan::StepOp created = create(op, *step);
  if (step->axes && context.mesh.size(*step->axes) != context.mesh.worldSize())
    created.setAxesAttr(zero::namesOf(builder.getContext(), *step->axes, context.mesh));
  if (double seconds = assignedSeconds(op); seconds > 0)
    created.setSeconds(APFloat(seconds));
  const zero::Work work = scheduled.getWork();
  if (work.flops > 0)
    created.setFlops(APFloat(work.flops));
  if (work.bytes > 0 && work.kind != zero::Work::Kind::copy)
    created.setBytes(std::llround(work.bytes));
  return success();
}

plan::StepOp StepBuilder::create(Operation *op, const zero::Step &step) {
  SmallVector<Attribute> operands;
  for (const zero::StepOperand &operand : step.operands)
    operands.push_back(placeOf(operand));
  SmallVector<NamedAttribute> attributes(step.attributes.begin(), step.attributes.end());
  if (Attribute micro = zero::microStepOf(op))
    attributes.push_back(builder.getNamedAttr("micro", micro));
  StringRef kernel = step.kernel.empty() ? plan::stringifyQueue(assignedQueue(op)) : StringRef(step.kernel);
  return create(op, kernel, step.numInputs, operands, attributes);
}

plan::StepOp StepBuilder::create(Operation *op, StringRef kernel, int64_t inputs, ArrayRef<Attribute> operands,
                                 ArrayRef<NamedAttribute> attributes) {
  auto queue = plan::QueueAttr::get(builder.getContext(), assignedQueue(op));
  return builder.create<plan::StepOp>(
      op->getLoc(), builder.getStringAttr(kernel), queue, builder.getI64IntegerAttr(inputs),
      builder.getArrayAttr(operands), builder.getDictionaryAttr(attributes), builder.getArrayAttr({}), FloatAttr(),
      FloatAttr(), IntegerAttr(), publishing.contains(op) ? builder.getUnitAttr() : UnitAttr(),
      dyn_cast_or_null<plan::OperandAttr>(op->getDiscardableAttr(placement::kWorkspace)),
      dyn_cast_or_null<plan::OperandAttr>(op->getDiscardableAttr(placement::kKept)),
      dyn_cast_or_null<IntegerAttr>(op->getDiscardableAttr(placement::kKeptInput)), ArrayAttr());
}

plan::OperandAttr StepBuilder::placeOf(const zero::StepOperand &operand) {
  auto access = static_cast<plan::Access>(operand.access);
  if (!operand.value)
    return plan::OperandAttr::get(builder.getContext(), access, sliceOf(operand.state), 0, ArrayRef<int64_t>(),
                                  operand.type);
  plan::OperandAttr place = placement::placeOf(operand.value);
  RankedTensorType type = operand.type ? operand.type : place.getType();
  SmallVector<int64_t> strides(place.getStrides());
  zero::addStrides(strides, operand.strides);
  return plan::OperandAttr::get(builder.getContext(), access, place.getSlice(),
                                place.getOffset() + operand.offset * graph::bytesOfElement(type.getElementType()),
                                ArrayRef<int64_t>(strides), type);
}

FlatSymbolRefAttr StepBuilder::sliceOf(const zero::State &state) {
  switch (state.kind) {
  case zero::State::Kind::parameter:
    return placement::sliceOf(symbols.lookupSymbolIn(context.module, state.symbol));
  case zero::State::Kind::storage:
    return placement::storageOf(context.bucketOf(state.symbol), state.what);
  case zero::State::Kind::losses:
    return metrics[static_cast<size_t>(plan::Metric::loss)];
  case zero::State::Kind::norm:
    return metrics[static_cast<size_t>(plan::Metric::grad_norm)];
  case zero::State::Kind::none:
    break;
  }
  return {};
}
