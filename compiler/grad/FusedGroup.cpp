#include "compiler/grad/FusedGroup.h"
#include "dialects/graph/ElementType.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

bool FusedGroup::returns(Operation *op, const FusionTable &table) const {
  return op == root || llvm::any_of(op->getResult(0).getUses(), [&](OpOperand &use) {
           const FusionFacts &user = table.of(use.getOwner());
           return !has(user) || (user.takesProgram && use.getOperandNumber() != 0);
         });
}

bool FusedGroup::isWorthIt() const {
  auto isWritten = [](Value operand) { return immediateOf(operand) && tensorOf(operand).getNumElements() > 1; };
  return members.size() > 1 || !again.empty() || (!isInto && llvm::any_of(root->getOperands(), isWritten));
}

bool FusedGroup::giveShape(ArrayRef<Value> values) const {
  if (!isInto)
    return true;
  std::optional<Shape> all = Shape();
  for (Value value : values)
    all = all ? broadcastShapes(*all, shapeOf(value)) : std::nullopt;
  return all && ArrayRef<int64_t>(*all) == shape;
}

namespace {

class Grower {
public:
  Grower(FusionTable &table, size_t root, unsigned number) : table(table), group(table, root, number), whole(root) {}

  FusedGroup run() {
    join(group.place, /*inner=*/false);
    // Whoever joins may have been the last use outside of another.
    for (size_t i = 0; i < group.makers.size();) {
      const size_t candidate = group.makers[i];
      bool inner = false;
      if (mayJoin(candidate, inner) && fits(table[candidate].op, inner)) {
        group.makers.erase(group.makers.begin() + static_cast<ptrdiff_t>(i));
        join(candidate, inner);
        i = 0;
      } else {
        ++i;
      }
    }
    return std::move(group);
  }

private:
  void join(size_t at, bool inner);
  void addMaker(size_t maker);
  void addReaders(Value input);
  bool mayJoin(size_t at, bool &inner);
  bool keepsNoMore(size_t at, bool inner);
  bool hasOthersBehind(size_t at);
  bool fits(Operation *candidate, bool inner);

  FusionTable &table;
  FusedGroup group;
  size_t whole; ///< a place from which on to the root only members take memory
};

/// Nobody that joins later uses what the operation makes: all its uses are by members, or behind the root.
void Grower::join(size_t at, bool inner) {
  FusionFacts &facts = table[at];
  Operation *op = facts.op;
  group.members.push_back(at);
  facts.group = group.number;
  if (at < whole && table.inMemoryFrom(at + 1) >= whole)
    whole = at;
  group.inputs.remove(op->getResult(0));
  for (Value operand : op->getOperands().take_front(facts.takesProgram ? 1 : op->getNumOperands())) {
    const FusionFacts *maker = table.makerOf(operand);
    const bool isJoined = maker && group.has(*maker);
    if (immediateOf(operand))
      group.constants.insert(operand);
    else if (!isJoined && group.inputs.insert(operand))
      addReaders(operand);
    if (maker && !isJoined && (maker->instruction || isa<ExpandOp>(maker->op)))
      addMaker(static_cast<size_t>(maker - &table[0]));
  }
  if (isa<ExpandOp>(op) || facts.takesProgram)
    return;
  group.instructions += registersOf(*facts.instruction);
  if (!inner)
    group.results.push_back(op->getResult(0));
}

void Grower::addMaker(size_t maker) {
  auto at = llvm::lower_bound(group.makers, maker, std::greater<>());
  if (at == group.makers.end() || *at != maker)
    group.makers.insert(at, maker);
}

/// Who else reads a whole tensor that the group reads may be computed with it, with what alone uses its result.
void Grower::addReaders(Value input) {
  constexpr size_t kMost = 8, kSteps = 4; // of what more read it is no activation
  if (group.isInto || shapeOf(input) != group.shape)
    return;
  SmallVector<Operation *, kMost> readers;
  for (Operation *user : input.getUsers()) {
    if (readers.size() == kMost)
      return;
    readers.push_back(user);
  }
  const bool isBehind = table[group.place].isBehind;
  for (Operation *op : readers)
    for (size_t step = 0; op && step < kSteps; ++step) {
      const FusionFacts &facts = table.of(op);
      const size_t at = table.placeOf(op);
      if (!facts.instruction || facts.isGone || group.has(facts) || at >= group.place || facts.isBehind != isBehind)
        break;
      addMaker(at);
      op = op->hasOneUse() ? *op->user_begin() : nullptr;
    }
}

/// `inner`: whether nobody else would need what the candidate makes.
bool Grower::mayJoin(size_t at, bool &inner) {
  const FusionFacts &facts = table[at];
  Operation *candidate = facts.op;
  auto isServed = [&](size_t user) { return group.has(table[user]) || user > group.place; };
  // Of many users the first one tells, mostly.
  if (facts.isGone || facts.isBehind != table[group.place].isBehind ||
      (!table[facts.firstUser].isGone && !isServed(facts.firstUser)) || shapeOf(candidate->getResult(0)) != group.shape)
    return false;
  inner = !group.returns(candidate, table);
  if (!inner && group.isInto)
    return false;
  if (isa<ExpandOp>(candidate)) {
    auto type = dtypeOf(tensorOf(candidate->getOperand(0)).getElementType());
    if (!inner || !type || !isFusedType(*type))
      return false;
  } else if (!facts.instruction) {
    return false;
  }
  auto serves = [&](Operation *user) { return isServed(table.placeOf(user)); };
  return (inner || llvm::all_of(candidate->getUsers(), serves)) && !table.readsWhatChanges(candidate, group.place) &&
         keepsNoMore(at, inner);
}

/// Does anything but members take memory between a place and the root?
bool Grower::hasOthersBehind(size_t at) {
  size_t between = table.inMemoryFrom(at + 1);
  while (between < whole && group.has(table[between]))
    between = table.inMemoryFrom(between + 1);
  return between < whole;
}

/// Between the candidate and the root its operands live on, where nobody else needs them, and its result does not.
bool Grower::keepsNoMore(size_t at, bool inner) {
  Operation *candidate = table[at].op;
  if (!hasOthersBehind(at))
    return true;
  int64_t more = inner ? -bytesOf(tensorOf(candidate->getResult(0))) : 0;
  llvm::SmallPtrSet<Value, 4> seen;
  for (Value operand : candidate->getOperands()) {
    Value viewed = viewedValue(operand);
    if (immediateOf(operand) || !seen.insert(viewed).second || table.lastUseOf(viewed) >= group.place)
      continue;
    if (viewed.getDefiningOp<ReadOp>())
      return false; // a parameter is let go where its layer ends
    more += bytesOf(tensorOf(viewed));
  }
  return more <= 0;
}

/// Is it a program that a kernel takes, with the candidate?
bool Grower::fits(Operation *candidate, bool inner) {
  SmallVector<Value, kFusedInputs + 3> more; // inputs
  size_t constants = group.constants.size(), results = group.results.size();
  for (auto [i, operand] : llvm::enumerate(candidate->getOperands())) {
    const bool isRepeated = llvm::is_contained(candidate->getOperands().take_front(i), operand);
    if (!immediateOf(operand)) {
      if (!isRepeated && !group.inputs.contains(operand))
        more.push_back(operand);
    } else if (!group.constants.contains(operand) && !isRepeated) {
      ++constants;
    }
  }
  const Value made = candidate->getResult(0);
  const bool computes = !isa<ExpandOp>(candidate), returns = computes && !inner;
  const size_t registers = computes ? registersOf(*table.of(candidate).instruction) : 0;
  results += returns;
  for (Value input : group.inputs)
    if (input != made)
      more.push_back(input);
  return more.size() <= kFusedInputs && results <= kFusedResults &&
         more.size() + constants + group.instructions + registers <= kFusedRegisters && group.giveShape(more);
}

} // namespace

FusedGroup growGroup(FusionTable &table, size_t root, unsigned number) {
  FusedGroup group = Grower(table, root, number).run();
  computeAgain(table, group);
  return group;
}

} // namespace zc
