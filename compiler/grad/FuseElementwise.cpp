//===- FuseElementwise.cpp - chains of element-wise operations as one -------------------===//
//
// A group grows from its last operation, at whose place it is computed, towards what made its operands. So nothing that
// depends on a member stands before the group, and the group depends on nothing behind it: it needs no search for
// cycles. What saves memory traffic is fused; what would keep more bytes alive between two operations that take memory
// is not, nor what lies on the two sides of the border to the backward. What stays outside is computed again inside,
// where that takes fewer reads.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/FusedGroup.h"
#include "compiler/grad/Passes.h"
#include "dialects/graph/ElementType.h"
#include "dialects/graph/Infer.h"

#include "llvm/ADT/SetVector.h"

#include <deque>

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "compiler/grad/Passes.h.inc"

namespace {

using Members = llvm::SmallSetVector<Operation *, 8>;

/// Operations that are computed again for one operand, at most.
constexpr size_t kComputedAgain = 12;
/// Tensors of which this many are as large as what is computed count for nothing beside it.
constexpr int64_t kVectors = 16;

/// What is asked of an operation again and again, found once.
struct Facts {
  Operation *op = nullptr;
  const FusedInstruction *instruction = nullptr; ///< null: it has no place in programs
  size_t firstUser = 0;                          ///< in the block; 0: none
  size_t lastUse = 0;                            ///< of the one result and views of it
  size_t nextInMemory = 0; ///< where the search for what takes memory goes on; its own place if it does
  unsigned group = 0;      ///< the last one that it is a member of
  bool isBehind = false;   ///< the border to the backward
  bool isGone = false;     ///< fused
  bool isView = false;
  bool takesProgram = false;
};

/// As quickly computed as an operand is read: arithmetic, comparisons, choices.
bool isQuick(const Facts &facts) {
  const FusedCode code = facts.instruction ? facts.instruction->code : FusedCode::end;
  return (code >= FusedCode::cast && code <= FusedCode::abs && code != FusedCode::div) || code == FusedCode::relu;
}

/// What a program reads of an operation that takes programs; null of others.
Value readBy(Operation *root) { return takesProgram(root) ? root->getOperand(0) : Value(); }

/// Members, the root first, and what is known of them as they come: each is looked at once.
struct Group {
  Group(Operation *root, size_t place, unsigned number)
      : root(root), isInto(takesProgram(root)), place(place), number(number),
        shape(shapeOf(isInto ? root->getOperand(0) : root->getResult(0))) {}
  Operation *root;
  bool isInto;                 ///< does the root take programs?
  size_t place;                ///< of the root
  unsigned number;             ///< by which members are known
  ArrayRef<int64_t> shape;     ///< of what the program computes
  SmallVector<size_t> members; ///< their places
  Members again;               ///< computed here too, and not taken out of their places
  SmallVector<size_t> makers;  ///< places of what makes the members' operands and may be in programs, the last first
  llvm::SmallSetVector<Value, kFusedInputs + 1> inputs; ///< made by no member, no immediates
  llvm::SmallPtrSet<Value, 8> constants;
  SmallVector<Value, kFusedResults + 1> results;
  size_t instructions = 0;

  size_t registers() const { return inputs.size() + constants.size() + instructions + again.size(); }
  /// Does the program, or the root beside it, read `value`?
  bool reads(Value value) const {
    return inputs.contains(value) || (isInto && llvm::is_contained(root->getOperands().drop_front(), value));
  }
};

/// How an input could be computed instead of read.
struct Again {
  Value value;
  Members ops;
  llvm::SmallSetVector<Value, 4> more; ///< that the program then reads too: vectors, what the root reads beside it
  Value instead; ///< the one tensor that is read for it; null: none but those that are read anyway
};

class ElementwiseFuser {
public:
  explicit ElementwiseFuser(ProgramOp program) {
    const size_t count = program.getBlock().getOperations().size();
    facts.resize(count);
    place.reserve(count);
    size_t at = 0;
    bool isBehind = false;
    const Operation *backward = program.getBackward();
    for (Operation &op : program.getBlock()) {
      isBehind |= &op == backward;
      note(op, at++, isBehind);
    }
  }

  /// Groups and members of them.
  std::pair<unsigned, unsigned> run() {
    std::pair<unsigned, unsigned> counts;
    for (size_t at = facts.size(); at-- > 0;) {
      Operation *root = facts[at].op;
      if (facts[at].isGone)
        continue;
      const bool isFusable = facts[at].instruction != nullptr;
      if (root->use_empty() && (isFusable || isa<ExpandOp>(root))) { // computed again wherever it was read
        drop(at);
        continue;
      }
      if (!isFusable && !facts[at].takesProgram)
        continue;
      Group group = grow(at);
      if (!isWorthIt(group))
        continue;
      replace(group);
      counts.first += 1;
      counts.second += group.members.size();
    }
    for (Operation *op : gone)
      op->erase();
    return counts;
  }

private:
  void note(Operation &op, size_t at, bool isBehind) {
    Facts &fact = facts[at];
    fact.op = &op;
    fact.isBehind = isBehind;
    fact.isView = isView(&op);
    Kind &kind = kindOf(&op);
    fact.nextInMemory = fact.isView || kind.isFree ? at + 1 : at;
    fact.takesProgram = kind.takesProgram;
    fact.instruction = instructionOf(&op, kind);
    place[&op] = at;
    for (Value operand : op.getOperands()) {
      Facts *maker = factsOf(operand);
      if (maker && maker->firstUser == 0)
        maker->firstUser = at;
      if (maker && maker->isView)
        operand = viewedValue(operand);
      lastUseOf(operand) = at;
    }
    if (auto assign = dyn_cast<AssignOp>(op))
      assigns[assign.getParameterAttr()].push_back(at);
  }

  /// What is known of operations by their name, and the last one of them, before any goes: mostly the next is like it.
  struct Kind {
    bool takesProgram = false, isFree = false;
    Operation *last = nullptr;
    const FusedInstruction *instruction = nullptr; ///< of the last one
  };
  Kind &kindOf(Operation *op) {
    auto [entry, isNew] = kinds.try_emplace(op->getName());
    if (isNew) { // traits are looked for in lists
      entry->second.takesProgram = takesProgram(op);
      entry->second.isFree = isFreeToRecompute(op);
    }
    return entry->second;
  }

  /// As findInstruction; null for nothing.
  const FusedInstruction *instructionOf(Operation *op, Kind &kind) {
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

  Facts &factsOf(Operation *op) { return facts[place.lookup(op)]; }
  const Facts &factsOf(Operation *op) const { return facts[place.lookup(op)]; }
  /// Of what makes it; null for an argument of the program.
  Facts *factsOf(Value value) {
    Operation *maker = value.getDefiningOp();
    return maker ? &factsOf(maker) : nullptr;
  }

  /// Where a value that is no view, or a view of it, is used last.
  size_t &lastUseOf(Value value) {
    Facts *maker = factsOf(value);
    return maker && value.getDefiningOp()->getNumResults() == 1 ? maker->lastUse : otherLastUse[value];
  }

  Group grow(size_t root) {
    Group group(facts[root].op, root, ++numGroups);
    join(group, root);
    // Whoever joins may have been the last use outside of another.
    for (size_t i = 0; i < group.makers.size();) {
      const size_t candidate = group.makers[i];
      bool inner = false;
      if (mayJoin(candidate, group, inner) && fits(facts[candidate].op, group, inner)) {
        group.makers.erase(group.makers.begin() + static_cast<ptrdiff_t>(i));
        join(group, candidate);
        i = 0;
      } else {
        ++i;
      }
    }
    while (computeAgain(group)) {
    }
    return group;
  }

  bool isMember(Operation *op, const Group &group) const { return op && factsOf(op).group == group.number; }

  /// Nobody that joins later uses what `op` makes: all its uses are by members, or behind the root.
  void join(Group &group, size_t at) {
    Operation *op = facts[at].op;
    group.members.push_back(at);
    facts[at].group = group.number;
    group.inputs.remove(op->getResult(0));
    for (Value operand : op->getOperands().take_front(facts[at].takesProgram ? 1 : op->getNumOperands())) {
      const Facts *maker = factsOf(operand);
      const bool isJoined = maker && maker->group == group.number;
      if (immediateOf(operand))
        group.constants.insert(operand);
      else if (!isJoined)
        group.inputs.insert(operand);
      if (maker && !isJoined && (maker->instruction || isa<ExpandOp>(maker->op)))
        addMaker(group, static_cast<size_t>(maker - facts.data()));
    }
    if (isa<ExpandOp>(op) || facts[at].takesProgram)
      return;
    ++group.instructions;
    if (isResult(op, group))
      group.results.push_back(op->getResult(0));
  }

  static void addMaker(Group &group, size_t maker) {
    auto at = llvm::lower_bound(group.makers, maker, std::greater<>());
    if (at == group.makers.end() || *at != maker)
      group.makers.insert(at, maker);
  }

  bool isResult(Operation *op, const Group &group) const { return op == group.root || !isInner(op, group); }

  /// Are all uses of `op` by members, in their programs?
  bool isInner(Operation *op, const Group &group) const {
    return llvm::all_of(op->getUses(), [&](OpOperand &use) {
      const Facts &user = factsOf(use.getOwner());
      return user.group == group.number && (!user.takesProgram || use.getOperandNumber() == 0);
    });
  }

  /// `inner`: whether nobody else would need what the candidate makes.
  bool mayJoin(size_t at, const Group &group, bool &inner) {
    const Facts &fact = facts[at];
    Operation *candidate = fact.op;
    auto isServed = [&](size_t user) { return facts[user].group == group.number || user > group.place; };
    // Of many users the first one tells, mostly.
    if (fact.isGone || fact.isBehind != facts[group.place].isBehind ||
        (!facts[fact.firstUser].isGone && !isServed(fact.firstUser)) || shapeOf(candidate->getResult(0)) != group.shape)
      return false;
    inner = isInner(candidate, group);
    if (!inner && group.isInto)
      return false;
    if (isa<ExpandOp>(candidate)) {
      auto type = dtypeOf(tensorOf(candidate->getOperand(0)).getElementType());
      if (!inner || !type || !isFusedType(*type))
        return false;
    } else if (!fact.instruction) {
      return false;
    }
    auto serves = [&](Operation *user) { return isServed(place.lookup(user)); };
    return (inner || llvm::all_of(candidate->getUsers(), serves)) && !readsWhatChanges(candidate, group) &&
           keepsNoMore(at, group, inner);
  }

  /// Is a parameter that the candidate reads assigned before the root?
  bool readsWhatChanges(Operation *candidate, const Group &group) const {
    if (assigns.empty())
      return false;
    auto changes = [&](Value operand) {
      auto read = viewedValue(operand).getDefiningOp<ReadOp>();
      auto found = read ? assigns.find(read.getParameterAttr()) : assigns.end();
      return found != assigns.end() &&
             llvm::any_of(found->second, [&](size_t at) { return at > place.lookup(candidate) && at < group.place; });
    };
    return llvm::any_of(candidate->getOperands(), changes);
  }

  /// Between the candidate and the root its operands live on, where nobody else needs them, and its result does not.
  bool keepsNoMore(size_t at, const Group &group, bool inner) {
    Operation *candidate = facts[at].op;
    size_t between = inMemoryFrom(at + 1);
    while (between < group.place && facts[between].group == group.number)
      between = inMemoryFrom(between + 1);
    if (between >= group.place)
      return true;
    int64_t more = inner ? -bytesOf(tensorOf(candidate->getResult(0))) : 0;
    llvm::SmallPtrSet<Value, 4> seen;
    for (Value operand : candidate->getOperands()) {
      Value viewed = viewedValue(operand);
      if (immediateOf(operand) || !seen.insert(viewed).second || lastUseOf(viewed) >= group.place)
        continue;
      if (viewed.getDefiningOp<ReadOp>())
        return false; // a parameter is let go where its layer ends
      more += bytesOf(tensorOf(viewed));
    }
    return more <= 0;
  }

  /// The first place from `at` on whose operation takes memory and is not fused yet: those passed over are passed over
  /// at once the next time.
  size_t inMemoryFrom(size_t at) {
    size_t found = at;
    while (found < facts.size() && facts[found].nextInMemory != found)
      found = facts[found].nextInMemory;
    while (at < found)
      at = std::exchange(facts[at].nextInMemory, found);
    return found;
  }

  /// Is it a program that a kernel takes, with the candidate? Of several results, only the first can lie over an
  /// operand.
  bool fits(Operation *candidate, const Group &group, bool inner) {
    SmallVector<Value, 4> more; // inputs
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
    results += returns;
    const size_t inputs = group.inputs.size() + more.size() - group.inputs.contains(made);
    if (inputs > kFusedInputs || results > kFusedResults ||
        inputs + constants + group.instructions + computes > kFusedRegisters)
      return false;
    if (results <= 1)
      return true;
    auto mayLieOver = [&](Value input) {
      return input != made && lastUseOf(viewedValue(input)) <= group.place &&
             ((returns && made.getType() == input.getType()) ||
              llvm::any_of(group.results, [&](Value result) { return result.getType() == input.getType(); }));
    };
    return llvm::count_if(group.inputs, mayLieOver) + llvm::count_if(more, mayLieOver) <= 1;
  }

  //===-- what is computed again ----------------------------------------------===//

  /// Computes an input instead of reading it, if there is one of which that is less to read.
  bool computeAgain(Group &group) const {
    if (group.registers() >= kFusedRegisters)
      return false; // there is no room for one more
    for (Value input : group.inputs) {
      Again again;
      again.value = input;
      if (shapeOf(input) != group.shape || !findMakers(input, group, again) || again.ops.empty() ||
          !isLessToRead(again, group))
        continue;
      group.again.insert(again.ops.begin(), again.ops.end());
      group.inputs.remove(input);
      group.inputs.insert(again.more.begin(), again.more.end());
      if (again.instead)
        group.inputs.insert(again.instead);
      return true;
    }
    return false;
  }

  /// Collects what makes `value` of tensors that are read anyway, of vectors and of at most one more tensor.
  bool findMakers(Value value, const Group &group, Again &again) const {
    if (immediateOf(value) || value == again.instead)
      return true;
    if (value != again.value && group.reads(value)) {
      if (!group.inputs.contains(value))
        again.more.insert(value);
      return true;
    }
    const bool isParameter = viewedValue(value).getDefiningOp<ReadOp>() != nullptr; // let go where its layer ends
    if (!isParameter && tensorOf(value).getNumElements() * kVectors <= tensorOf(again.value).getNumElements()) {
      again.more.insert(value);
      return true;
    }
    Operation *maker = value.getDefiningOp();
    if (maker && isQuick(factsOf(maker)) && shapeOf(value) == group.shape && !factsOf(maker).isGone &&
        again.ops.size() < kComputedAgain) {
      return !again.ops.insert(maker) ||
             llvm::all_of(maker->getOperands(), [&](Value operand) { return findMakers(operand, group, again); });
    }
    if (isParameter || again.instead || bytesOf(tensorOf(value)) > bytesOf(tensorOf(again.value)))
      return false;
    again.instead = value;
    return true;
  }

  bool isLessToRead(const Again &again, const Group &group) const {
    size_t registers = group.registers() + again.more.size();
    for (Operation *op : again.ops)
      registers += 1 + static_cast<size_t>(llvm::count_if(
                           op->getOperands(), [](Value operand) { return immediateOf(operand).has_value(); }));
    if (group.inputs.size() + again.more.size() > kFusedInputs || registers > kFusedRegisters ||
        llvm::any_of(again.ops, [&](Operation *op) { return readsWhatChanges(op, group); }))
      return false;
    // Another tensor is read instead, and lives on instead: then nobody else may need this one.
    return !again.instead || llvm::all_of(again.value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      return isMember(user, group) ||
             (readBy(user) == again.value && use.getOperandNumber() == 0 && canReadInstead(again, group, user));
    });
  }

  /// Can `user`, which takes programs, compute what it reads of the same tensors?
  static bool canReadInstead(const Again &again, const Group &group, Operation *user) {
    auto has = [&](Value operand) {
      return immediateOf(operand) || operand == again.instead || shapeOf(operand) != group.shape ||
             again.ops.contains(operand.getDefiningOp()) || llvm::is_contained(user->getOperands(), operand);
    };
    return llvm::all_of(again.ops, [&](Operation *op) { return llvm::all_of(op->getOperands(), has); });
  }

  //===-- programs --------------------------------------------------------------===//

  Fused build(const Group &group) const {
    SmallVector<size_t> places;
    for (size_t at : group.members)
      if (!facts[at].takesProgram)
        places.push_back(at);
    for (Operation *op : group.again)
      places.push_back(place.lookup(op));
    llvm::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    SmallVector<FusedStep> steps;
    SmallVector<Value> results;
    if (group.isInto)
      results.push_back(readBy(group.root));
    for (size_t at : places) {
      Operation *op = facts[at].op;
      steps.push_back({op, facts[at].instruction});
      if (!group.isInto && facts[at].group == group.number && !isa<ExpandOp>(op) && isResult(op, group))
        results.push_back(op->getResult(0));
    }
    return buildFused(steps, results);
  }

  /// Are fewer bytes written and read? Alone, an operation has to lose operands that were written out for it.
  static bool isWorthIt(const Group &group) {
    auto isWritten = [](Value operand) { return immediateOf(operand) && tensorOf(operand).getNumElements() > 1; };
    return group.members.size() > 1 || !group.again.empty() ||
           (!group.isInto && llvm::any_of(group.root->getOperands(), isWritten));
  }

  /// The operation that computes a group, at its root's place.
  Operation *make(const Group &group, const Fused &fused) const {
    SmallVector<size_t> sorted(group.members);
    llvm::sort(sorted);
    SmallVector<Location> nodes;
    for (size_t at : sorted)
      nodes.push_back(facts[at].op->getLoc());
    OpBuilder builder(group.root);
    auto program = builder.getDenseI64ArrayAttr(encode(fused.program));
    if (!group.isInto)
      return builder.create<FusedOp>(builder.getFusedLoc(nodes), ValueRange(fused.results).getTypes(), fused.inputs,
                                     program);
    SmallVector<Value> operands(fused.inputs);
    llvm::append_range(operands, group.root->getOperands().drop_front());
    auto into = builder.create<FusedIntoOp>(group.root->getLoc(), group.root->getResultTypes(), operands,
                                            builder.getStringAttr(cast<KernelOp>(group.root).getKernelName()), program);
    for (NamedAttribute attribute : group.root->getAttrs())
      into->setAttr(attribute.getName(), attribute.getValue());
    return into;
  }

  void replace(const Group &group) {
    const Fused fused = build(group);
    Operation *made = make(group, fused);
    place[made] = group.place;
    for (Value input : fused.inputs) {
      size_t &last = lastUseOf(viewedValue(input));
      last = std::max(last, group.place);
    }
    SmallVector<Value> old(fused.results);
    if (group.isInto)
      old.assign(group.root->result_begin(), group.root->result_end());
    for (auto [before, result] : llvm::zip(old, made->getResults())) {
      const size_t last = lastUseOf(before);
      lastUseOf(result) = last;
      before.replaceAllUsesWith(result);
    }
    SmallVector<size_t> sorted(group.members);
    llvm::sort(sorted, std::greater<>());
    llvm::for_each(sorted, [&](size_t at) { drop(at); });
  }

  void drop(size_t at) {
    Facts &fact = facts[at];
    fact.op->dropAllReferences();
    gone.push_back(fact.op);
    fact.isGone = true;
    fact.nextInMemory = std::max(fact.nextInMemory, at + 1);
  }

  llvm::SmallDenseMap<OperationName, Kind> kinds;
  std::deque<FusedInstruction> instructions; ///< of operations, those that differ
  std::vector<Facts> facts;                  ///< by place
  DenseMap<Operation *, size_t> place;       ///< of operations, before any was fused
  DenseMap<Value, size_t> otherLastUse;      ///< of values that no Facts are of
  unsigned numGroups = 0;
  DenseMap<mlir::Attribute, SmallVector<size_t, 1>> assigns; ///< of parameters, in order
  std::vector<Operation *> gone;                             ///< fused
};

struct FuseElementwise : StagePass<impl::FuseElementwiseBase<FuseElementwise>, GradOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() != Phase::update) {
        auto [made, members] = ElementwiseFuser(program).run();
        groups += made;
        fused += members;
      }
  }
};

} // namespace

std::unique_ptr<Pass> createFuseElementwise(const GradOptions &options) {
  return std::make_unique<FuseElementwise>(options);
}

} // namespace zc
