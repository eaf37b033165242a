//===- Lifetimes.cpp - which bytes each value needs, and when ----------------------------===//

#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/EvictionWindow.h"
#include "compiler/schedule/MemoryUse.h"
#include "compiler/schedule/Publishing.h"
#include "compiler/schedule/QueueAssignment.h"

using namespace mlir;
using namespace zc;

Lifetimes::Lifetimes(graph::ProgramOp program, Overlap overlap, FlatSymbolRefAttr lossSlice,
                     FlatSymbolRefAttr normSlice)
    : overlap(overlap), lossSlice(lossSlice), normSlice(normSlice),
      transientClass(program.getPhase() == graph::Phase::update ? plan::Class::buffers : plan::Class::activations),
      context(program->getParentOfType<ModuleOp>()) {
  for (Operation &op : program.getBlock()) {
    positions[&op] = static_cast<int64_t>(operations.size());
    operations.push_back(&op);
  }
  if (auto planned = program->getAttrOfType<DenseF64ArrayAttr>(kStarts))
    starts = planned.asArrayRef();
  computeLastUses();
  if (overlap == Overlap::slower)
    keepWhatLeaves(program.getBlock());
  findGradientPuts();
  for (BlockArgument argument : program.getBlock().getArguments())
    addRoot(argument, 0, plan::Class::buffers);
  for (auto [position, op] : llvm::enumerate(operations)) {
    placeResults(op, static_cast<int64_t>(position));
    placeWorkspace(op, static_cast<int64_t>(position));
  }
  for (Operation *op : publishingOperations(program))
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        roots[places.at(value).root].isPublished = true;
}

std::pair<int64_t, int64_t> Lifetimes::span(const Root &root) const {
  // The update of the step before may be anywhere in the program; over its bytes, publishing would wait for its end.
  if (overlap == Overlap::none)
    return {root.first, root.last};
  if (root.isPublished && root.tier != zero::Tier::device)
    return {0, static_cast<int64_t>(operations.size()) - 1};
  return {root.first, root.until};
}

Operation *Lifetimes::operationAt(int64_t position) const {
  return position >= 0 && position < static_cast<int64_t>(operations.size()) ? operations[position] : nullptr;
}

/// The last position that begins before the operation at `position` ends. The terminator has no start; where others
/// have none either, the program was not ordered by starts and nothing is known.
int64_t Lifetimes::endOf(int64_t position) const {
  auto index = static_cast<size_t>(position);
  if (starts.size() + 1 != operations.size() || index >= starts.size())
    return position;
  double end = starts[index] + assignedSeconds(operations[index]);
  auto first = starts.begin() + position;
  return std::max(position, static_cast<int64_t>(std::lower_bound(first, starts.end(), end) - starts.begin()) - 1);
}

void Lifetimes::computeLastUses() {
  for (auto [position, op] : llvm::enumerate(operations)) {
    const auto last = static_cast<int64_t>(position), until = endOf(last);
    const bool isView = zero::isView(op);
    for (Value operand : op->getOperands()) {
      Value bytes = zero::viewedValue(operand);
      Uses &uses = lastUse[bytes];
      uses.last = std::max(uses.last, last);
      uses.until = std::max(uses.until, until);
      if (!isView)
        firstUse.try_emplace(bytes, last);
    }
  }
}

/// Until compute waits for the copy anyway.
void Lifetimes::keepWhatLeaves(Block &block) {
  boundEvictions(block, [&](Operation *compute, Operation *evict) {
    int64_t &until = lastUse[zero::viewedValue(cast<zero::ScheduledOp>(evict).getEvicted())].until;
    until = std::max(until, positions.lookup(compute) - 1);
  });
}

/// A value is computed inside its gradient bucket when the bucket is open by then and nobody needs it after the bucket
/// is reduced; in a bucket of its own, so is what it is computed over. Of several puts of one value the first counts;
/// the others copy.
void Lifetimes::findGradientPuts() {
  for (Operation *op : operations) {
    auto put = dyn_cast<zero::PutOp>(op);
    if (!put)
      continue;
    Value computed = zero::viewedValue(put.getTensor());
    Operation *producer = computed.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(computed.getType());
    bool fits = producer && isa<graph::KernelOp>(producer) && type &&
                type.getNumElements() == cast<RankedTensorType>(put.getTensor().getType()).getNumElements() &&
                positions.lookup(put.getBuffer().getDefiningOp()) < positions.lookup(producer) &&
                lastUse.lookup(computed).last < lastUse.lookup(put.getBuffer()).last;
    if (!fits || !puts.try_emplace(computed, put).second)
      continue;
    const bool isAlone = llvm::count_if(put.getBuffer().getUsers(), llvm::IsaPred<zero::PutOp>) == 1;
    for (Value value = computed; isAlone && (value = graph::computedOver(value));)
      if (positions.lookup(put.getBuffer().getDefiningOp()) > positions.lookup(value.getDefiningOp()) ||
          !puts.try_emplace(value, put).second)
        break;
  }
}

size_t Lifetimes::addRoot(Value value, int64_t first, plan::Class klass) {
  Uses uses = lastUse.lookup(value);
  Root root{zero::bytesOf(value.getType()),
            zero::tierOf(value.getType()),
            first,
            std::max(first, uses.last),
            std::max(first, uses.until),
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
  Uses uses = lastUse.lookup(zero::viewedValue(value));
  roots[place.root].last = std::max(roots[place.root].last, uses.last);
  roots[place.root].until = std::max(roots[place.root].until, uses.until);
}

void Lifetimes::placeResults(Operation *op, int64_t position) {
  for (OpResult result : op->getResults())
    if (!placeWithKnownStorage(result, position) && !placeInBucket(result, position) &&
        !placeOverOperand(result, position))
      roots[addRoot(result, position, transientClass)].mayBeOverwritten = true;
}

FlatSymbolRefAttr Lifetimes::sliceOf(Operation *op, const zero::State &state) {
  switch (state.kind) {
  case zero::State::Kind::parameter:
    return placement::sliceOf(symbols.lookupNearestSymbolFrom(op, state.symbol));
  case zero::State::Kind::storage:
    return placement::storageOf(context.bucketOf(state.symbol), state.what);
  case zero::State::Kind::losses:
    return lossSlice;
  case zero::State::Kind::norm:
    return normSlice;
  case zero::State::Kind::none:
    break;
  }
  return {};
}

void Lifetimes::placeWorkspace(Operation *op, int64_t position) {
  auto scheduled = dyn_cast<zero::ScheduledOp>(op);
  const zero::Workspace workspace = scheduled ? scheduled.getWorkspace(context) : zero::Workspace();
  if (workspace.bytes == 0)
    return;
  workspaces.emplace_back(op, roots.size());
  roots.push_back(
      {workspace.bytes, workspace.tier, position, position, endOf(position), plan::Class::buffers, {}, op->getLoc()});
}

/// Views, and values whose place follows from what they are.
bool Lifetimes::placeWithKnownStorage(OpResult result, int64_t position) {
  auto op = dyn_cast<zero::ScheduledOp>(result.getOwner());
  if (!op)
    return false;
  if (Value accumulator = op.getOverwritten(result.getResultNumber())) {
    share(result, places.at(accumulator));
    return true;
  }
  zero::ResultPlace known = op.getResultPlace(result.getResultNumber(), context);
  if (known.within) {
    Place place = places.at(known.within); // a copy: the map may grow
    place.offset += known.offset;
    zero::addStrides(place.strides, known.strides);
    places[result] = place;
    return true;
  }
  if (known.state) {
    if (FlatSymbolRefAttr slice = sliceOf(op, known.state))
      roots[addRoot(result, position, plan::Class::buffers)].slice = slice;
    else
      placeInGradients(result, position, known.state);
    Place &place = places[result];
    place.offset = known.offset;
    place.strides = known.strides;
    return true;
  }
  if (known.fromFirstUse) {
    plan::Class klass = known.activation ? plan::Class::activations : plan::Class::buffers;
    addRoot(result, firstUse.lookup(result), klass);
    return true;
  }
  if (isa<zero::BufferType>(result.getType())) {
    addRoot(result, position, plan::Class::buffers);
    return true;
  }
  return false;
}

/// Storage that is the program's own: from the first of its buffers, or the first use of its address, to the last.
void Lifetimes::placeInGradients(OpResult result, int64_t position, const zero::State &state) {
  auto [found, isNew] = gradients.try_emplace(state.symbol, roots.size());
  if (isNew) {
    zero::BucketOp bucket = context.bucketOf(state.symbol);
    const int64_t bytes = zero::storedElements(bucket, state.what, context.mesh) *
                          graph::bytesOfElement(bucket.getStoredType(state.what));
    roots.push_back({bytes,
                     bucket.getTier(state.what),
                     static_cast<int64_t>(operations.size()),
                     0,
                     0,
                     plan::Class::gradients,
                     {},
                     bucket.getLoc(),
                     false,
                     false,
                     state.symbol});
  }
  Root &root = roots[found->second];
  if (isAddress(result.getOwner()) && firstUse.contains(result))
    root.first = std::min(root.first, firstUse.lookup(result));
  else if (!isAddress(result.getOwner()))
    root.first = std::min(root.first, position);
  share(result, {found->second, 0});
}

bool Lifetimes::placeInBucket(OpResult result, int64_t position) {
  auto found = puts.find(result);
  if (found == puts.end())
    return false;
  zero::PutOp put = found->second;
  Place place = places.at(put.getBuffer());
  auto type = cast<RankedTensorType>(put.getTensor().getType());
  place.offset += static_cast<int64_t>(put.getOffset()) * graph::bytesOfElement(type.getElementType());
  places[result] = place;
  roots[place.root].first = std::min(roots[place.root].first, position); // of an alloc, which begins with its use
  return true;
}

bool Lifetimes::placeOverOperand(OpResult result, int64_t position) {
  Operation *op = result.getOwner();
  auto kernel = dyn_cast<graph::KernelOp>(op);
  if (!kernel)
    return false;
  int64_t bytes = zero::bytesOf(result.getType());
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (!kernel.mayOverwrite(static_cast<unsigned>(index), result.getResultNumber()))
      continue;
    Place place = places.at(operand);
    const Root &root = roots[place.root];
    bool dies = root.mayBeOverwritten && root.last == position && place.offset == 0 && root.bytes == bytes;
    // Another operand over the same bytes must be read at the same index.
    bool alone = llvm::all_of(op->getOpOperands(), [&, type = operand.getType()](OpOperand &other) {
      return places.at(other.get()).root != place.root ||
             (other.get().getType() == type && kernel.mayOverwrite(other.getOperandNumber(), result.getResultNumber()));
    });
    if (dies && alone) {
      share(result, place);
      return true;
    }
  }
  return false;
}
