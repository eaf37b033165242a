//===- ComputeAgain.cpp - inputs of a fused group that are computed instead of read ---------------===//
#include "compiler/grad/FusedGroup.h"

#include <utility>

using namespace mlir;
using namespace zc::graph;

namespace zc {

namespace {

/// Operations that are computed again for one operand, at most.
constexpr size_t kComputedAgain = 12;
/// Tensors of which this many are as large as what is computed count for nothing beside it.
constexpr int64_t kVectors = 16;

/// As quickly computed as an operand is read: arithmetic, comparisons, choices.
bool isQuick(const FusionFacts &facts) {
  const FusedCode code = facts.instruction ? facts.instruction->code : FusedCode::end;
  return (code >= FusedCode::cast && code <= FusedCode::abs && code != FusedCode::div) || code == FusedCode::relu;
}

/// A function that CPUs compute in vectors: some times as long as an operand is read.
bool isVectorFunction(const FusionFacts &facts) {
  switch (facts.instruction ? facts.instruction->code : FusedCode::end) {
  case FusedCode::div:
  case FusedCode::exp:
  case FusedCode::sqrt:
  case FusedCode::reciprocal:
  case FusedCode::tanh:
  case FusedCode::sigmoid:
  case FusedCode::silu:
  case FusedCode::gelu:
  case FusedCode::geluTanh:
    return true;
  default:
    return false;
  }
}

/// How an input could be computed.
struct Again {
  Again(const FusionTable &table, const FusedGroup &group, Value value)
      : table(table), group(group), value(value), isSaved(isSavedForGroup(value)) {}

  bool isWorthIt() { return shapeOf(value) == group.shape && findMakers(value) && !ops.empty() && isLessToRead(); }

  const FusionTable &table;
  const FusedGroup &group;
  const Value value;
  llvm::SmallSetVector<Operation *, 8> ops;
  llvm::SmallSetVector<Value, 4> more; ///< that the program then reads too: vectors, what the root reads beside it
  Value instead; ///< the one tensor that is read for it; null: none but those that are read anyway

private:
  bool isSavedForGroup(Value made) const;
  bool isAllowed(Operation *maker);
  const bool isSaved;       ///< only for the group: behind the border nobody else reads it
  bool hasFunction = false; ///< among `ops`: one, and only so that nothing is saved for it: silu of a gated layer
  bool findMakers(Value operand);
  /// The group's, then.
  SmallVector<Value> inputs() const;
  bool isLessToRead() const;
  bool canReadInstead(Operation *user) const;
};

/// Is it, or a view of it, made in the forward, and needed in the backward by the group alone?
bool Again::isSavedForGroup(Value made) const {
  Operation *maker = made.getDefiningOp();
  return table[group.place].isBehind && maker && !table.of(maker).isBehind &&
         llvm::all_of(made.getUsers(), [&](Operation *user) {
           const FusionFacts &facts = table.of(user);
           return facts.isView ? isSavedForGroup(user->getResult(0)) : !facts.isBehind || group.has(facts);
         });
}

bool Again::isAllowed(Operation *maker) {
  const FusionFacts &facts = table.of(maker);
  return isQuick(facts) || (isSaved && isVectorFunction(facts) && !std::exchange(hasFunction, true));
}

/// Collects what makes `operand` of tensors that are read anyway, of vectors and of at most one more tensor.
bool Again::findMakers(Value operand) {
  if (immediateOf(operand) || operand == instead)
    return true;
  if (operand != value && group.reads(operand)) {
    if (!group.inputs.contains(operand))
      more.insert(operand);
    return true;
  }
  const bool isParameter = viewedValue(operand).getDefiningOp<ReadOp>() != nullptr; // let go where its layer ends
  if (!isParameter && tensorOf(operand).getNumElements() * kVectors <= tensorOf(value).getNumElements()) {
    more.insert(operand);
    return true;
  }
  Operation *maker = operand.getDefiningOp();
  if (maker && shapeOf(operand) == group.shape && !table.of(maker).isGone && ops.size() < kComputedAgain &&
      isAllowed(maker))
    return !ops.insert(maker) || llvm::all_of(maker->getOperands(), [&](Value of) { return findMakers(of); });
  if (isParameter || instead || bytesOf(tensorOf(operand)) > bytesOf(tensorOf(value)))
    return false;
  instead = operand;
  return true;
}

SmallVector<Value> Again::inputs() const {
  SmallVector<Value> all(more.begin(), more.end());
  llvm::copy_if(group.inputs, std::back_inserter(all), [&](Value input) { return input != value; });
  if (instead)
    all.push_back(instead);
  return all;
}

bool Again::isLessToRead() const {
  size_t registers = group.registers() + more.size();
  for (Operation *op : ops)
    registers += registersOf(*table.of(op).instruction) +
                 static_cast<size_t>(
                     llvm::count_if(op->getOperands(), [](Value operand) { return immediateOf(operand).has_value(); }));
  if (group.inputs.size() + more.size() > kFusedInputs || registers > kFusedRegisters || !group.giveShape(inputs()) ||
      llvm::any_of(ops, [&](Operation *op) { return table.readsWhatChanges(op, group.place); }))
    return false;
  if (isSaved && (!instead || table.lastUseOf(viewedValue(instead)) >= group.place))
    return true;
  if (hasFunction)
    return false;
  // Another tensor is read instead, and lives on instead: then nobody else may need this one.
  return !instead || llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return group.has(table.of(user)) ||
           (table.of(user).takesProgram && use.getOperandNumber() == 0 && canReadInstead(user));
  });
}

/// Can `user`, which takes programs, compute what it reads of the same tensors?
bool Again::canReadInstead(Operation *user) const {
  auto has = [&](Value operand) {
    return immediateOf(operand) || operand == instead || shapeOf(operand) != group.shape ||
           ops.contains(operand.getDefiningOp()) || llvm::is_contained(user->getOperands(), operand);
  };
  return llvm::all_of(ops, [&](Operation *op) { return llvm::all_of(op->getOperands(), has); });
}

bool computeOneAgain(const FusionTable &table, FusedGroup &group) {
  if (group.registers() >= kFusedRegisters)
    return false; // there is no room for one more
  for (Value input : group.inputs) {
    Again again(table, group, input);
    if (!again.isWorthIt())
      continue;
    for (Operation *op : again.ops) {
      if (!group.again.insert(op))
        continue;
      group.instructions += registersOf(*table.of(op).instruction);
      for (Value operand : op->getOperands())
        if (immediateOf(operand))
          group.constants.insert(operand);
    }
    group.inputs.remove(input);
    group.inputs.insert(again.more.begin(), again.more.end());
    if (again.instead)
      group.inputs.insert(again.instead);
    return true;
  }
  return false;
}

} // namespace

void computeAgain(const FusionTable &table, FusedGroup &group) {
  while (computeOneAgain(table, group)) {
  }
}

} // namespace zc
