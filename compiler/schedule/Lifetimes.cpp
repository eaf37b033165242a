//===- Lifetimes.cpp - which bytes each value needs, and when ----------------------------===//

#include "compiler/schedule/Lifetimes.h"

using namespace mlir;
using namespace zc;

/// The value whose bytes `value` shows: through views of tensors and of buffers.
static Value viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto view = dyn_cast<zero::ViewOp>(op))
      return view.getBuffer();
    auto kernel = dyn_cast<graph::KernelOp>(op);
    if (!kernel || kernel.getViewOperand() < 0)
      return value;
    value = op->getOperand(kernel.getViewOperand());
  }
  return value;
}

Lifetimes::Lifetimes(graph::ProgramOp program, FlatSymbolRefAttr lossSlice, FlatSymbolRefAttr normSlice)
    : lossSlice(lossSlice), normSlice(normSlice),
      transientClass(program.getPhase() == graph::Phase::micro ? plan::Class::activations : plan::Class::buffers) {
  for (Operation &op : program.getBlock()) {
    positions[&op] = static_cast<int64_t>(operations.size());
    operations.push_back(&op);
  }
  computeLastUses(program);
  findGradientPuts(program);
  for (BlockArgument argument : program.getBlock().getArguments())
    addRoot(argument, 0, std::max<int64_t>(0, lastUse.lookup(argument)), plan::Class::buffers);
  for (auto [position, op] : llvm::enumerate(operations))
    placeResults(op, static_cast<int64_t>(position));
}

Operation *Lifetimes::operationAt(int64_t position) const {
  return position >= 0 && position < static_cast<int64_t>(operations.size()) ? operations[position] : nullptr;
}

void Lifetimes::computeLastUses(graph::ProgramOp) {
  for (auto [position, op] : llvm::enumerate(operations))
    for (Value operand : op->getOperands()) {
      int64_t &last = lastUse[viewedValue(operand)];
      last = std::max(last, static_cast<int64_t>(position));
    }
}

/// A value is computed inside its gradient bucket when the bucket is open by then and nobody needs it after the bucket
/// is reduced. Of several puts of one value the first counts; the others copy.
void Lifetimes::findGradientPuts(graph::ProgramOp) {
  for (Operation *op : operations) {
    auto put = dyn_cast<zero::PutOp>(op);
    if (!put)
      continue;
    Value computed = viewedValue(put.getTensor());
    Operation *producer = computed.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(computed.getType());
    bool fits = producer && isa<graph::KernelOp>(producer) && type &&
                type.getNumElements() == cast<RankedTensorType>(put.getTensor().getType()).getNumElements() &&
                positions.lookup(put.getBuffer().getDefiningOp()) < positions.lookup(producer) &&
                lastUse.lookup(computed) < lastUse.lookup(put.getBuffer());
    if (fits)
      puts.try_emplace(computed, put);
  }
}

size_t Lifetimes::addRoot(Value value, int64_t first, int64_t last, plan::Class klass) {
  Root root{placement::bytesOf(placement::storedType(value.getType())),
            first,
            std::max(first, last),
            klass,
            {},
            value.getLoc(),
            false};
  roots.push_back(root);
  places[value] = {roots.size() - 1, 0};
  return roots.size() - 1;
}

void Lifetimes::share(Value value, Place place) {
  places[value] = place;
  roots[place.root].last = std::max(roots[place.root].last, lastUse.lookup(viewedValue(value)));
}

void Lifetimes::placeResults(Operation *op, int64_t position) {
  for (OpResult result : op->getResults())
    if (!placeWithKnownStorage(result, position) && !placeInBucket(result, position) &&
        !placeOverOperand(result, position))
      roots[addRoot(result, position, lastUse.lookup(result), transientClass)].mayBeOverwritten = true;
}

/// Attribute `plan.<what>` of the bucket that `op` names.
static FlatSymbolRefAttr storageOf(Operation *op, StringRef what) {
  auto bucket = SymbolTable::lookupNearestSymbolFrom(op, op->getAttrOfType<FlatSymbolRefAttr>("bucket"));
  return bucket->getAttrOfType<FlatSymbolRefAttr>(("plan." + what).str());
}

/// At stages 0 and 1 without accumulation the gradient bucket of the micro-step is the bucket's gradient storage.
static bool usesGradientStorage(zero::GradBufferOp op) {
  auto bucket = SymbolTable::lookupNearestSymbolFrom<zero::BucketOp>(op, op.getBucketAttr());
  auto accumulation = op->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>("zc.accumulation");
  return !bucket.getGradientsSharded() && (!accumulation || accumulation.getInt() == 1);
}

/// Views, and values whose place follows from what they are.
bool Lifetimes::placeWithKnownStorage(OpResult result, int64_t position) {
  Operation *op = result.getOwner();
  auto known = [&](FlatSymbolRefAttr slice) {
    roots[addRoot(result, position, lastUse.lookup(result), plan::Class::buffers)].slice = slice;
    return true;
  };
  if (auto view = dyn_cast<zero::ViewOp>(op)) {
    Place place = places.at(view.getBuffer());
    auto type = cast<RankedTensorType>(view.getResult().getType());
    place.offset += static_cast<int64_t>(view.getOffset()) * placement::bytesOfElement(type.getElementType());
    places[result] = place;
    return true;
  }
  if (auto kernel = dyn_cast<graph::KernelOp>(op); kernel && kernel.getViewOperand() >= 0) {
    Place place = places.at(op->getOperand(kernel.getViewOperand())); // a copy: the map may grow
    places[result] = place;
    return true;
  }
  if (isa<zero::ResidentOp>(op))
    return known(storageOf(op, "parameters"));
  if (auto grad = dyn_cast<zero::GradBufferOp>(op); grad && usesGradientStorage(grad))
    return known(storageOf(op, "gradients"));
  if (isa<zero::GradBufferOp, zero::GatherOp>(op)) {
    addRoot(result, position, lastUse.lookup(result), plan::Class::buffers);
    return true;
  }
  if (auto read = dyn_cast<graph::ReadOp>(op))
    return known(SymbolTable::lookupNearestSymbolFrom(op, read.getParameterAttr())
                     ->getAttrOfType<FlatSymbolRefAttr>("plan.slice"));
  if (isa<zero::ClipFactorOp>(op) && result.getResultNumber() == 0)
    return known(normSlice);
  // The accumulator is updated in place.
  if (isa<zero::NormPartialOp, zero::AllReduceOp>(op) && op->getNumOperands() == 1) {
    share(result, places.at(op->getOperand(0)));
    return true;
  }
  return false;
}

bool Lifetimes::placeInBucket(OpResult result, int64_t position) {
  auto found = puts.find(result);
  if (found == puts.end())
    return false;
  zero::PutOp put = found->second;
  Place place = places.at(put.getBuffer());
  auto type = cast<RankedTensorType>(put.getTensor().getType());
  place.offset += static_cast<int64_t>(put.getOffset()) * placement::bytesOfElement(type.getElementType());
  places[result] = place;
  return true;
}

bool Lifetimes::placeOverOperand(OpResult result, int64_t position) {
  Operation *op = result.getOwner();
  auto kernel = dyn_cast<graph::KernelOp>(op);
  if (!kernel || op->getNumResults() != 1)
    return false;
  int64_t bytes = placement::bytesOf(placement::storedType(result.getType()));
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (!kernel.mayOverwrite(static_cast<unsigned>(index)))
      continue;
    Place place = places.at(operand);
    const Root &root = roots[place.root];
    bool dies = root.mayBeOverwritten && root.last == position && place.offset == 0 && root.bytes == bytes;
    // Another operand over the same bytes must be read at the same index.
    bool alone = llvm::all_of(op->getOperands(), [&](Value other) {
      return places.at(other).root != place.root || other.getType() == operand.getType();
    });
    if (dies && alone) {
      share(result, place);
      return true;
    }
  }
  return false;
}
