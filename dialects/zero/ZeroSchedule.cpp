//===- ZeroSchedule.cpp - what executes an operation, what it costs, where its results are ----===//

#include "dialects/zero/Execution.h"
#include "runtime/comm/Staging.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

#include "dialects/zero/ZeroInterfaces.cpp.inc"

static double size(Value value) { return static_cast<double>(bytesOf(value.getType())); }

/// A kernel that costs little more than its start, where `value` is.
static Work small(Value value) { return Work::compute(tierOf(value.getType()), 0); }

static Work copy(Value from, Value to) { return Work::copy(tierOf(from.getType()), tierOf(to.getType()), size(from)); }

static bool isStorage(Value value) { return bool(viewedValue(value).getDefiningOp<StorageOp>()); }

ScheduleContext::ScheduleContext(ModuleOp module)
    : module(module), mesh(meshOf(module)), stage(executionOf(module).stage),
      accumulation(executionOf(module).accumulation) {
  for (auto bucket : module.getOps<BucketOp>())
    buckets[bucket.getSymName()] = bucket;
}

BucketOp ScheduleContext::bucketOf(FlatSymbolRefAttr name) const {
  return cast<BucketOp>(buckets.lookup(name.getValue()));
}

/// By the runtime's formula for `elements` elements of a sum in `tier`.
static Workspace staging(uint64_t (&formula)(uint64_t, uint64_t, uint64_t, Adders), ModuleOp module, int64_t members,
                         int64_t elements, Type element, Tier tier) {
  const bool onGpu = tier == Tier::device && graph::targetOf(module) == Target::cuda;
  const uint64_t bytes =
      formula(static_cast<uint64_t>(members), static_cast<uint64_t>(elements),
              static_cast<uint64_t>(graph::bytesOfElement(element)), onGpu ? Adders::devices : Adders::hosts);
  return {static_cast<int64_t>(bytes), tier};
}

Workspace ScheduleContext::stagingOfReduceScatter(int64_t members, int64_t part, Type element, Tier tier) const {
  return staging(reduceScatterStaging, module, members, part, element, tier);
}

Workspace ScheduleContext::stagingOfAllReduce(int64_t members, int64_t whole, Type element, Tier tier) const {
  return staging(allReduceStaging, module, members, whole, element, tier);
}

//===-- what it takes ---------------------------------------------------------===//

Work StorageOp::getWork() { return Work::address(); }
Work AllocOp::getWork() { return Work::address(); }
Work PartOp::getWork() { return Work::address(); }
Work ViewOp::getWork() { return Work::none(); }
Work ReleaseOp::getWork() { return Work::none(); }
Work PutOp::getWork() { return Work::none(); } // in place, nearly always

Work FillOp::getWork() { return small(getResult()); }
Work FetchOp::getWork() { return copy(getSource(), getTarget()); }
Work EvictOp::getWork() { return copy(getSource(), getTarget()); }

Work GatherOp::getWork() { return Work::collective(size(getResult()), getAxesAttr()); }
Work AllGatherOp::getWork() { return Work::collective(size(getWhole())); }
Work ReduceScatterOp::getWork() { return Work::collective(size(getBuffer()), getAxesAttr()); }
Work AllToAllOp::getWork() { return Work::collective(size(getInput()), getAxesAttr()); }
Work AllReduceOp::getWork() { return Work::collective(0, getAxesAttr()); } // of a few bytes
Work ReduceLossOp::getWork() { return Work::collective(0); }               // likewise

Work QuantizeOp::getWork() { return Work::packing(size(getInput()) + size(getResult())); }
Work DequantizeOp::getWork() { return Work::packing(size(getInput()) + size(getResult())); }
Work DequantizeSumQuantizeOp::getWork() { return Work::packing(size(getInput()) + size(getResult())); }
Work DequantizeSumOp::getWork() { return Work::packing(size(getInput()) + size(getShard())); }
Work OwnPartOp::getWork() { return Work::packing(size(getInput()) + size(getResult())); }
Work ReorderOp::getWork() { return Work::packing(2 * size(getInput())); }

Work GradBufferOp::getWork() { return small(getResult()); } // its gaps
Work RecordLossOp::getWork() { return small(getLoss()); }
Work ClipFactorOp::getWork() { return small(getSum()); }
Work NormPartialOp::getWork() { return Work::compute(tierOf(getGradient().getType()), size(getGradient())); }
Work AccumulateOp::getWork() { return Work::compute(tierOf(getTarget().getType()), 3 * size(getSource())); }
Work PublishOp::getWork() {
  return Work::compute(tierOf(getTarget().getType()), size(getSource()) + size(getTarget()));
}

/// Gradient, weights and moments in; weights, moments and the copy out.
Work UpdateOp::getWork() {
  double bytes = size(getGradient()) + 2 * size(getWeights());
  for (Value moment : getMoments())
    bytes += 2 * size(moment);
  return Work::compute(tierOf(getWeights().getType()), bytes + (getCopy() ? size(getCopy()) : 0));
}

//===-- what it works in -------------------------------------------------------===//

Workspace ReduceScatterOp::getWorkspace(const ScheduleContext &context) {
  const BufferType whole = getBuffer().getType();
  const int64_t part = getShard().getType().getNumElements();
  return context.stagingOfReduceScatter(whole.getNumElements() / part, part, whole.getElementType(), whole.getTier());
}

Workspace AllReduceOp::getWorkspace(const ScheduleContext &context) {
  const BufferType type = getType();
  return context.stagingOfAllReduce(context.mesh.size(axesOf(getAxesAttr(), context.mesh)), type.getNumElements(),
                                    type.getElementType(), type.getTier());
}

Workspace ReduceLossOp::getWorkspace(const ScheduleContext &context) { // of one f64, or two
  return context.stagingOfAllReduce(context.mesh.size(axesOf({}, context.mesh)), getWeight() ? 2 : 1,
                                    Float64Type::get(getContext()), Tier::device);
}

//===-- what it overwrites ----------------------------------------------------===//

ResultPlace StorageOp::getResultPlace(unsigned, const ScheduleContext &context) {
  ResultPlace place;
  place.state = State::storage(getBucketAttr(), getWhat());
  place.offset = static_cast<int64_t>(getOffset()) * graph::bytesOfElement(getType().getElementType());
  if (!getOwn())
    return place;
  BucketOp bucket = context.bucketOf(getBucketAttr());
  const AxisSet axes = axesOf(bucket.getAxesAttr(), context.mesh);
  place.strides = stridesOf(context.mesh, axes,
                            static_cast<int64_t>(bucket.getPadded()) / context.mesh.size(axes) *
                                graph::bytesOfElement(bucket.getStoredType(getWhat())));
  return place;
}

ResultPlace AllocOp::getResultPlace(unsigned, const ScheduleContext &) {
  ResultPlace place;
  place.fromFirstUse = true;
  place.activation = getActivation();
  return place;
}

static ResultPlace within(Value buffer, uint64_t offset) {
  ResultPlace place;
  place.within = buffer;
  place.offset =
      static_cast<int64_t>(offset) * graph::bytesOfElement(cast<BufferType>(buffer.getType()).getElementType());
  return place;
}
ResultPlace PartOp::getResultPlace(unsigned, const ScheduleContext &context) {
  ResultPlace place = within(getBuffer(), getOffset());
  if (getAxesAttr())
    place.strides = stridesOf(context.mesh, axesOf(getAxesAttr(), context.mesh), bytesOf(getType()));
  return place;
}
ResultPlace ViewOp::getResultPlace(unsigned, const ScheduleContext &) { return within(getBuffer(), getOffset()); }

/// At stages 0 and 1 without accumulation the gradient bucket of the micro-step is the bucket's gradient storage.
ResultPlace GradBufferOp::getResultPlace(unsigned, const ScheduleContext &context) {
  BucketOp bucket = context.bucketOf(getBucketAttr());
  ResultPlace place;
  if (!bucket.getGradientsSharded() && bucket.getGradientsTier() == Tier::device && context.accumulation == 1 &&
      bucket.getStoredType(Storage::gradients) == bucket.getType())
    place.state = State::storage(getBucketAttr(), Storage::gradients);
  return place;
}

/// The weight of the losses: the second of the two sums.
ResultPlace ReduceLossOp::getResultPlace(unsigned, const ScheduleContext &) {
  ResultPlace place;
  place.state = State::losses();
  place.offset = sizeof(double);
  return place;
}

ResultPlace ClipFactorOp::getResultPlace(unsigned number, const ScheduleContext &) {
  ResultPlace place;
  if (number == 0)
    place.state = State::norm();
  return place;
}

Value NormPartialOp::getOverwritten(unsigned) { return getPrevious(); }
Value AllReduceOp::getOverwritten(unsigned) { return getInput(); }

State RecordLossOp::getAssignedState() { return State::losses(); }
State ReduceLossOp::getAssignedState() { return State::losses(); }

//===-- when ------------------------------------------------------------------===//

bool GatherOp::fillsDevice() { return true; }
bool QuantizeOp::fillsDevice() { return true; }
bool FetchOp::fillsDevice() { return tierOf(getTarget().getType()) == Tier::device && !isStorage(getTarget()); }

Value EvictOp::getEvicted() {
  return tierOf(getSource().getType()) == Tier::device && !isStorage(getSource()) ? getSource() : Value();
}

bool RecordLossOp::dependsOnMicroStep() { return true; } // the first of a step starts from zero
bool AccumulateOp::dependsOnMicroStep() { return true; } // likewise
