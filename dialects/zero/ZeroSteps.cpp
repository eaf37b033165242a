//===- ZeroSteps.cpp - the step that an operation becomes --------------------------------===//

#include "base/TrafficClass.h"
#include "dialects/graph/KernelAttributes.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/zero/Zero.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

using MaybeStep = std::optional<Step>;

static Attribute integer(Operation *op, int64_t value) { return Builder(op->getContext()).getI64IntegerAttr(value); }
static Attribute text(Operation *op, StringRef value) { return StringAttr::get(op->getContext(), value); }

//===-- no step ---------------------------------------------------------------===//

MaybeStep StorageOp::getStep(StepContext &) { return std::nullopt; }
MaybeStep AllocOp::getStep(StepContext &) { return std::nullopt; }
MaybeStep PartOp::getStep(StepContext &) { return std::nullopt; }
MaybeStep ViewOp::getStep(StepContext &) { return std::nullopt; }
MaybeStep ReleaseOp::getStep(StepContext &) { return std::nullopt; }

//===-- collectives -----------------------------------------------------------===//

/// What a collective along `axes` says: these, and what its bytes count as. Of two hops the one between nodes
/// has the smaller buffer: the bucket is counted by the other.
static Step along(Operation *op, const ScheduleContext &context, StringRef kernel, ArrayAttr axes,
                  TrafficClass traffic) {
  Step step(kernel);
  step.axes = axesOf(axes, context.mesh);
  bool isHop = axes && *step.axes == context.mesh.nodeAxes();
  return step.set(kTrafficAttribute, text(op, nameOf(isHop ? TrafficClass::hop : traffic)));
}

/// Stage 0 counts both halves of its all-reduce as one.
static TrafficClass gradientTraffic(const ScheduleContext &context) {
  return context.stage == 0 ? TrafficClass::allReduce : TrafficClass::reduceScatter;
}

MaybeStep GatherOp::getStep(StepContext &context) {
  return along(*this, context, "all_gather", getAxesAttr(), TrafficClass::gather).input(getShard()).output(getResult());
}

MaybeStep AllGatherOp::getStep(StepContext &context) {
  auto storage = getWhole().getDefiningOp<StorageOp>();
  bool ofGradients = storage && storage.getWhat() == Storage::gradients;
  return along(*this, context, "all_gather", {}, ofGradients ? TrafficClass::allReduce : TrafficClass::gather)
      .input(getOwn())
      .output(getWhole());
}

MaybeStep ReduceScatterOp::getStep(StepContext &context) {
  if (context.mesh.size(axesOf(getAxesAttr(), context.mesh)) == 1 &&
      context.samePlace({Access::read, getBuffer()}, {Access::read, getShard()}))
    return std::nullopt; // one rank, one micro-step: the gradient is where it belongs
  Step step = along(*this, context, "reduce_scatter", getAxesAttr(), gradientTraffic(context));
  step.set("scale", getScaleAttr());
  if (getAccumulate())
    step.set("accumulate", integer(*this, 1));
  return step.input(getBuffer()).output(getShard(), getAccumulate() ? Access::readWrite : Access::write);
}

MaybeStep AllToAllOp::getStep(StepContext &context) {
  return along(*this, context, "all_to_all", getAxesAttr(), gradientTraffic(context))
      .input(getInput())
      .output(getResult());
}

MaybeStep AllReduceOp::getStep(StepContext &context) {
  return along(*this, context, "all_reduce", getAxesAttr(), TrafficClass::none).output(getResult(), Access::readWrite);
}

//===-- around collectives ------------------------------------------------------===//

/// A kernel of the operation's name and attributes; `residual` may be null.
static Step onPieces(Operation *op, Value input, Value output, Access access = Access::write, Value residual = {}) {
  Step step(op->getName().stripDialect());
  step.input(input).output(output, access);
  if (residual)
    step.output(residual, Access::readWrite);
  for (NamedAttribute attribute : op->getAttrs())
    if (!graph::isNote(attribute))
      step.attributes.push_back(attribute);
  return step;
}

MaybeStep QuantizeOp::getStep(StepContext &) {
  return onPieces(*this, getInput(), getResult(), Access::write, getResidual());
}
MaybeStep DequantizeOp::getStep(StepContext &) { return onPieces(*this, getInput(), getResult()); }
MaybeStep DequantizeSumQuantizeOp::getStep(StepContext &) {
  return onPieces(*this, getInput(), getResult(), Access::write, getResidual());
}
MaybeStep DequantizeSumOp::getStep(StepContext &) {
  return onPieces(*this, getInput(), getShard(), getAccumulate() ? Access::readWrite : Access::write);
}

MaybeStep OwnPartOp::getStep(StepContext &context) {
  int64_t parts = getInput().getType().getNumElements() / getType().getNumElements();
  // Of the data-parallel ranks that have one part, so many follow each other.
  AxisSet axes = axesOf(getAxesAttr(), context.mesh);
  int64_t divisor = 1;
  for (size_t axis = 0; axis < context.mesh.axes().size(); ++axis)
    if (axes.has(axis))
      divisor = context.mesh.strideIn(context.mesh.dataAxes(), axis);
  return Step("own_part")
      .input(getInput())
      .output(getResult())
      .set("parts", integer(*this, parts))
      .set("divisor", integer(*this, divisor));
}

MaybeStep ReorderOp::getStep(StepContext &) {
  auto rows = static_cast<int64_t>(getRows()), columns = static_cast<int64_t>(getColumns());
  BufferType type = getInput().getType();
  auto seenAs = [&](int64_t first, int64_t second) {
    return RankedTensorType::get({first, second, type.getNumElements() / (rows * columns)}, type.getElementType());
  };
  Step step("transpose");
  step.numInputs = 1;
  return step.operand({Access::read, getInput(), {}, seenAs(rows, columns)})
      .operand({Access::write, getTarget(), {}, seenAs(columns, rows)})
      .set("permutation", DenseI64ArrayAttr::get(getContext(), {1, 0, 2}));
}

//===-- bytes -----------------------------------------------------------------===//

MaybeStep FetchOp::getStep(StepContext &) { return Step("").input(getSource()).output(getTarget()); }
MaybeStep EvictOp::getStep(StepContext &) { return Step("").input(getSource()).output(getTarget()); }

MaybeStep FillOp::getStep(StepContext &) { return Step("constant").output(getResult()).set("value", getValueAttr()); }

MaybeStep GradBufferOp::getStep(StepContext &context) {
  SmallVector<int64_t> gaps = context.bucketOf(getBucketAttr()).getGaps();
  if (gaps.empty())
    return std::nullopt;
  return Step("fill_gaps").output(getResult()).set("gaps", DenseI64ArrayAttr::get(getContext(), gaps));
}

MaybeStep PutOp::getStep(StepContext &context) {
  StepOperand target{
      Access::write, getBuffer(), {}, cast<RankedTensorType>(getTensor().getType()), static_cast<int64_t>(getOffset())};
  if (context.samePlace({Access::read, getTensor()}, target))
    return std::nullopt; // computed in place
  return Step("copy").input(getTensor()).operand(target);
}

MaybeStep AccumulateOp::getStep(StepContext &) {
  return Step("accumulate_gradient")
      .input(getSource())
      .output(getTarget(), Access::readWrite)
      .set("restart", integer(*this, 1));
}

//===-- the update ------------------------------------------------------------===//

MaybeStep NormPartialOp::getStep(StepContext &) {
  bool first = !getPrevious() || getReset();
  Step step("norm_partial");
  if (first)
    step.set("first", integer(*this, 1));
  return step.input(getGradient()).output(getResult(), first ? Access::write : Access::readWrite);
}

MaybeStep ClipFactorOp::getStep(StepContext &) {
  Step step("norm_finish");
  if (getMaxNormAttr())
    step.set("max_norm", getMaxNormAttr());
  step.input(getSum());
  if (getWeight())
    step.input(getWeight()).set("terms", getTermsAttr());
  if (getScaled())
    step.set("scaled", integer(*this, 1));
  return step.output(getNorm()).output(getFactor());
}

MaybeStep UpdateOp::getStep(StepContext &context) {
  Step step(nameOf(getRule()));
  step.input(getGradient()).input(getFactor()).output(getWeights(), Access::readWrite);
  for (Value moment : getMoments())
    step.output(moment, Access::readWrite);
  if (getCopy())
    step.output(getCopy());
  for (StringRef name : {"beta1", "beta2", "eps", "momentum", "weight_decay", "lr_scale"})
    if (Attribute number = (*this)->getAttr(name))
      step.set(name, number);
  if (graph::trainingOf(context.module).epsUncorrected)
    step.set("eps_uncorrected", integer(*this, 1));
  return step;
}

MaybeStep PublishOp::getStep(StepContext &) {
  bool isCopy = getTarget().getType().getElementType().isF32();
  return Step(isCopy ? "copy" : "cast").input(getSource()).output(getTarget());
}

/// One f64, or two where losses have weights.
static StepOperand lossSums(Operation *op, bool weighted) {
  return {Access::readWrite,
          {},
          State::losses(),
          RankedTensorType::get({weighted ? 2 : 1}, Float64Type::get(op->getContext()))};
}

MaybeStep RecordLossOp::getStep(StepContext &) {
  Step step("accumulate_loss");
  step.input(getLoss());
  if (getWeight())
    step.input(getWeight());
  return step.operand(lossSums(*this, bool(getWeight())));
}

MaybeStep ReduceLossOp::getStep(StepContext &context) {
  if (context.mesh.dataDegree() == 1)
    return std::nullopt;
  return along(*this, context, "all_reduce", {}, TrafficClass::none).operand(lossSums(*this, bool(getWeight())));
}
