#include "compiler/grad/FusionFacts.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

FusionTable::FusionTable(ProgramOp program) : facts(program.getBlock().getOperations().size()) {
  size_t at = 0;
  bool isBehind = false;
  const Operation *backward = program.getBackward();
  for (Operation &op : program.getBlock()) {
    isBehind |= &op == backward;
    note(op, at++, isBehind);
  }
}

void FusionTable::note(Operation &op, size_t at, bool isBehind) {
  FusionFacts &fact = facts[at];
  fact.op = &op;
  fact.isBehind = isBehind;
  fact.isView = isView(&op);
  Kind &kind = kindOf(&op);
  fact.nextInMemory = fact.isView || kind.isFree ? at + 1 : at;
  fact.takesProgram = kind.takesProgram;
  fact.instruction = instructionOf(&op, kind);
  places.set(&op, at);
  for (Value operand : op.getOperands()) {
    FusionFacts *maker = makerOf(operand);
    if (maker && maker->firstUser == 0)
      maker->firstUser = at;
    if (maker && maker->isView)
      operand = viewedValue(operand);
    lastUseOf(operand) = at;
  }
  if (auto assign = dyn_cast<AssignOp>(op))
    assigns[assign.getParameterAttr()].push_back(at);
}

FusionTable::Kind &FusionTable::kindOf(Operation *op) {
  auto [entry, isNew] = kinds.try_emplace(op->getName());
  if (isNew) { // traits are looked for in lists
    entry->second.takesProgram = graph::takesProgram(op);
    entry->second.isFree = isFreeToRecompute(op);
  }
  return entry->second;
}

const FusedInstruction *FusionTable::instructionOf(Operation *op, Kind &kind) {
  const bool isLikeLast = kind.last && op->getPropertiesStorageSize() == 0 &&
                          kind.last->getOperandTypes() == op->getOperandTypes() &&
                          kind.last->getResultTypes() == op->getResultTypes() &&
                          kind.last->getRawDictionaryAttrs() == op->getRawDictionaryAttrs();
  if (!isLikeLast) {
    auto found = findInstruction(op);
    kind.instruction = found ? &instructions.emplace_back(*found) : nullptr;
  }
  kind.last = op;
  return kind.instruction;
}

size_t &FusionTable::lastUseOf(Value value) {
  FusionFacts *maker = makerOf(value);
  return maker && value.getDefiningOp()->getNumResults() == 1 ? maker->lastUse : otherLastUse[value];
}

size_t FusionTable::lastUseOf(Value value) const {
  Operation *maker = value.getDefiningOp();
  return maker && maker->getNumResults() == 1 ? of(maker).lastUse : otherLastUse.lookup(value);
}

/// Those that are passed over are passed over at once the next time.
size_t FusionTable::inMemoryFrom(size_t at) {
  size_t found = at;
  while (found < facts.size() && facts[found].nextInMemory != found)
    found = facts[found].nextInMemory;
  while (at < found)
    at = std::exchange(facts[at].nextInMemory, found);
  return found;
}

bool FusionTable::readsWhatChanges(Operation *op, size_t place) const {
  if (assigns.empty())
    return false;
  auto changes = [&](Value operand) {
    auto read = viewedValue(operand).getDefiningOp<ReadOp>();
    auto found = read ? assigns.find(read.getParameterAttr()) : assigns.end();
    return found != assigns.end() &&
           llvm::any_of(found->second, [&](size_t at) { return at > placeOf(op) && at < place; });
  };
  return llvm::any_of(op->getOperands(), changes);
}

void FusionTable::drop(size_t place) {
  FusionFacts &fact = facts[place];
  fact.op->dropAllReferences();
  fact.isGone = true;
  fact.nextInMemory = std::max(fact.nextInMemory, place + 1);
}

} // namespace zc
