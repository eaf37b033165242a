//===- FuseElementwise.cpp - chains of element-wise operations as one -------------------===//
//
// A group grows from its last operation, at whose place it is computed, towards what made its operands. So nothing that
// depends on a member stands before the group, and the group depends on nothing behind it: it needs no search for
// cycles. What saves memory traffic is fused; what would keep more bytes alive between two operations that take memory
// is not, nor what lies on the two sides of the border to the backward.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/FusedProgram.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "compiler/grad/Passes.h.inc"

namespace {

using Members = llvm::SmallSetVector<Operation *, 8>;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The one value of a constant, which a program has in itself.
std::optional<float> immediateOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  auto type = elements ? dtypeOf(elements.getElementType()) : std::nullopt;
  if (!type || !elements.isSplat() || !isFusedType(*type))
    return std::nullopt;
  if (*type == DType::boolean)
    return elements.getSplatValue<bool>() ? 1.0f : 0.0f;
  return static_cast<float>(elements.getSplatValue<APFloat>().convertToDouble());
}

/// What `op` is in a program; nothing where it has no place in one.
std::optional<FusedInstruction> findInstruction(Operation *op) {
  if (!isElementwise(op) || op->getNumResults() != 1 || !isa<KernelOp>(op))
    return std::nullopt;
  for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes())))
    if (auto dtype = dtypeOf(cast<RankedTensorType>(type).getElementType()); !dtype || !isFusedType(*dtype))
      return std::nullopt;
  FailureOr<KernelSpec> spec = toKernelSpec(op);
  return succeeded(spec) ? fusedInstructionOf(*spec) : std::nullopt;
}

/// What is asked of an operation again and again, found once.
struct Facts {
  FusedCode code = FusedCode::end; ///< of its instruction; end: it has none
  DType type = DType::f32;
  bool isBehind = false; ///< the border to the backward
  bool isGone = false;   ///< fused
  Operation *op = nullptr;
  Operation *firstUser = nullptr; ///< in the block
  size_t nextInMemory = 0;        ///< where the search for what takes memory goes on; its own place if it does
};

/// Members, the root first, and what is known of them as they come: each is looked at once.
struct Group {
  explicit Group(Operation *root) : root(root) {}
  Operation *root;
  Members members;
  SmallVector<Operation *> makers; ///< of the members' operands that have a place in programs, the last first
  llvm::SmallSetVector<Value, kFusedInputs + 1> inputs; ///< made by no member, no immediates
  llvm::SmallPtrSet<Value, 8> constants;
  SmallVector<Value, kFusedResults + 1> results;
  size_t instructions = 0;
};

/// A group as a program and its operands.
struct Fused {
  FusedProgram program;
  SmallVector<Value> inputs, results;
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
      if (facts[at].isGone || facts[at].code == FusedCode::end)
        continue;
      Operation *root = facts[at].op;
      Members members = grow(root);
      if (!isWorthIt(members))
        continue;
      replace(members, root, build(members, root));
      counts.first += 1;
      counts.second += members.size();
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
    fact.nextInMemory = isView(&op) || isFreeToRecompute(&op) ? at + 1 : at;
    if (const auto &instruction = instructionOf(&op)) {
      fact.code = instruction->code;
      fact.type = instruction->type;
    }
    place[&op] = at;
    for (Value operand : op.getOperands()) {
      lastUse[viewedValue(operand)] = at;
      if (auto maker = place.find(operand.getDefiningOp()); maker != place.end() && !facts[maker->second].firstUser)
        facts[maker->second].firstUser = &op;
    }
    if (auto assign = dyn_cast<AssignOp>(op))
      assigns[assign.getParameterAttr()].push_back(at);
  }

  /// As findInstruction. Of the operations of a name the last one is remembered: mostly the next one is like it.
  const std::optional<FusedInstruction> &instructionOf(Operation *op) {
    Known &known = knownOf[op->getName()];
    const bool isLikeLast = known.op && op->getPropertiesStorageSize() == 0 &&
                            known.op->getOperandTypes() == op->getOperandTypes() &&
                            known.op->getResultTypes() == op->getResultTypes() &&
                            known.op->getRawDictionaryAttrs() == op->getRawDictionaryAttrs();
    if (!isLikeLast)
      known = {op, findInstruction(op)};
    return known.instruction;
  }

  const Facts &factsOf(Operation *op) const { return facts[place.lookup(op)]; }
  bool isFusable(Operation *op) const { return factsOf(op).code != FusedCode::end; }

  Members grow(Operation *root) {
    Group group(root);
    join(group, root);
    // Whoever joins may have been the last use outside of another.
    for (size_t i = 0; i < group.makers.size();) {
      Operation *candidate = group.makers[i];
      if (mayJoin(candidate, group.members, root) && fits(candidate, group)) {
        group.makers.erase(group.makers.begin() + static_cast<ptrdiff_t>(i));
        join(group, candidate);
        i = 0;
      } else {
        ++i;
      }
    }
    return group.members;
  }

  /// Nobody that joins later uses what `op` makes: all its uses are by members, or behind the root.
  void join(Group &group, Operation *op) {
    group.members.insert(op);
    group.inputs.remove(op->getResult(0));
    for (Value operand : op->getOperands()) {
      if (immediateOf(operand))
        group.constants.insert(operand);
      else if (!group.members.contains(operand.getDefiningOp()))
        group.inputs.insert(operand);
      addMaker(group, operand.getDefiningOp());
    }
    if (isa<ExpandOp>(op))
      return;
    ++group.instructions;
    if (isResult(op, group))
      group.results.push_back(op->getResult(0));
  }

  void addMaker(Group &group, Operation *maker) const {
    if (!maker || (!isFusable(maker) && !isa<ExpandOp>(maker)) || group.members.contains(maker))
      return;
    auto isLater = [&](Operation *a, Operation *b) { return place.lookup(a) > place.lookup(b); };
    auto at = llvm::lower_bound(group.makers, maker, isLater);
    if (at == group.makers.end() || *at != maker)
      group.makers.insert(at, maker);
  }

  static bool isResult(Operation *op, const Group &group) { return op == group.root || !isInner(op, group.members); }

  /// Are all uses of `op` by members?
  static bool isInner(Operation *op, const Members &members) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) { return members.contains(user); });
  }

  bool mayJoin(Operation *candidate, const Members &members, Operation *root) {
    const Facts &fact = factsOf(candidate);
    auto isServed = [&](Operation *user) { return members.contains(user) || place.lookup(user) > place.lookup(root); };
    // Of many users the first one tells, mostly.
    if (fact.isGone || fact.isBehind != factsOf(root).isBehind ||
        (!factsOf(fact.firstUser).isGone && !isServed(fact.firstUser)) ||
        typeOf(candidate->getResult(0)).getShape() != typeOf(root->getResult(0)).getShape())
      return false;
    const bool inner = isInner(candidate, members);
    if (isa<ExpandOp>(candidate)) {
      auto type = dtypeOf(typeOf(candidate->getOperand(0)).getElementType());
      if (!inner || !type || !isFusedType(*type))
        return false;
    } else if (fact.code == FusedCode::end) {
      return false;
    }
    return llvm::all_of(candidate->getUsers(), isServed) && !readsWhatChanges(candidate, root) &&
           keepsNoMore(candidate, members, inner);
  }

  /// Is a parameter that the candidate reads assigned before the root?
  bool readsWhatChanges(Operation *candidate, Operation *root) const {
    auto changes = [&](Value operand) {
      auto read = viewedValue(operand).getDefiningOp<ReadOp>();
      auto found = read ? assigns.find(read.getParameterAttr()) : assigns.end();
      return found != assigns.end() && llvm::any_of(found->second, [&](size_t at) {
               return at > place.lookup(candidate) && at < place.lookup(root);
             });
    };
    return llvm::any_of(candidate->getOperands(), changes);
  }

  /// Between the candidate and the root its operands live on, where nobody else needs them, and its result does not.
  bool keepsNoMore(Operation *candidate, const Members &members, bool inner) {
    Operation *root = members[0];
    size_t between = inMemoryFrom(place.lookup(candidate) + 1);
    while (between < place.lookup(root) && members.contains(facts[between].op))
      between = inMemoryFrom(between + 1);
    if (between >= place.lookup(root))
      return true;
    int64_t more = inner ? -bytesOf(typeOf(candidate->getResult(0))) : 0;
    llvm::SmallPtrSet<Value, 4> seen;
    for (Value operand : candidate->getOperands()) {
      Value viewed = viewedValue(operand);
      if (immediateOf(operand) || !seen.insert(viewed).second || lastUse.lookup(viewed) >= place.lookup(root))
        continue;
      if (viewed.getDefiningOp<ReadOp>())
        return false; // a parameter is let go where its layer ends
      more += bytesOf(typeOf(viewed));
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
  bool fits(Operation *candidate, const Group &group) const {
    auto inputs = group.inputs;
    inputs.remove(candidate->getResult(0));
    size_t constants = group.constants.size(), results = group.results.size();
    for (auto [i, operand] : llvm::enumerate(candidate->getOperands()))
      if (!immediateOf(operand))
        inputs.insert(operand);
      else if (!group.constants.contains(operand) &&
               !llvm::is_contained(candidate->getOperands().take_front(i), operand))
        ++constants;
    const bool computes = !isa<ExpandOp>(candidate), returns = computes && isResult(candidate, group);
    results += returns;
    if (inputs.size() > kFusedInputs || results > kFusedResults ||
        inputs.size() + constants + group.instructions + computes > kFusedRegisters)
      return false;
    if (results == 1)
      return true;
    auto hasTypeOfResult = [&](Value input) {
      return (returns && candidate->getResult(0).getType() == input.getType()) ||
             llvm::any_of(group.results, [&](Value result) { return result.getType() == input.getType(); });
    };
    return llvm::count_if(inputs, [&](Value input) {
             return lastUse.lookup(viewedValue(input)) <= place.lookup(group.root) && hasTypeOfResult(input);
           }) <= 1;
  }

  SmallVector<Operation *> inOrder(const Members &members) const {
    SmallVector<Operation *> sorted(members.begin(), members.end());
    llvm::sort(sorted, [&](Operation *a, Operation *b) { return place.lookup(a) < place.lookup(b); });
    return sorted;
  }

  Fused build(const Members &members, Operation *root) const {
    Fused fused;
    const SmallVector<Operation *> sorted = inOrder(members);
    // Inputs have the first registers.
    llvm::MapVector<Value, size_t> registers;
    for (Operation *op : sorted)
      for (Value operand : op->getOperands())
        if (!members.contains(operand.getDefiningOp()) && !immediateOf(operand) &&
            registers.insert({operand, fused.inputs.size()}).second) {
          fused.inputs.push_back(operand);
          fused.program.inputs.push_back(*dtypeOf(typeOf(operand).getElementType()));
        }
    auto define = [&](FusedInstruction instruction) {
      fused.program.instructions.push_back(instruction);
      return fused.inputs.size() + fused.program.instructions.size() - 1;
    };
    auto registerOf = [&](Value value) {
      std::optional<float> immediate = immediateOf(value);
      if (auto found = registers.find(value); found != registers.end() || !immediate)
        return found->second;
      return registers[value] = define({FusedCode::constant, *dtypeOf(typeOf(value).getElementType()), {}, *immediate});
    };
    for (Operation *op : sorted) {
      if (isa<ExpandOp>(op)) {
        registers[op->getResult(0)] = registerOf(op->getOperand(0));
        continue;
      }
      FusedInstruction instruction{factsOf(op).code, factsOf(op).type};
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        instruction.from[i] = registerOf(operand);
      registers[op->getResult(0)] = define(instruction);
      if (op == root || !isInner(op, members)) {
        fused.results.push_back(op->getResult(0));
        fused.program.results.push_back(registers[op->getResult(0)]);
      }
    }
    return fused;
  }

  /// Are fewer bytes written and read? Alone, an operation has to lose operands that were written out for it.
  static bool isWorthIt(const Members &members) {
    auto isWritten = [](Value operand) { return immediateOf(operand) && typeOf(operand).getNumElements() > 1; };
    return members.size() > 1 || llvm::any_of(members[0]->getOperands(), isWritten);
  }

  void replace(const Members &members, Operation *root, const Fused &fused) {
    const SmallVector<Operation *> sorted = inOrder(members);
    SmallVector<Location> nodes;
    for (Operation *op : sorted)
      nodes.push_back(op->getLoc());
    OpBuilder builder(root);
    SmallVector<Type> types(ValueRange(fused.results).getTypes());
    auto made = builder.create<FusedOp>(builder.getFusedLoc(nodes), types, fused.inputs,
                                        builder.getDenseI64ArrayAttr(encode(fused.program)));
    const size_t at = place.lookup(root);
    place[made] = at;
    for (Value input : fused.inputs)
      lastUse[viewedValue(input)] = std::max(lastUse[viewedValue(input)], at);
    for (auto [old, result] : llvm::zip(fused.results, made.getResults())) {
      lastUse[result] = lastUse.lookup(old);
      Value(old).replaceAllUsesWith(result);
    }
    for (Operation *op : llvm::reverse(sorted)) {
      op->dropAllReferences();
      gone.push_back(op);
      Facts &fact = facts[place.lookup(op)];
      fact.isGone = true;
      fact.nextInMemory = std::max(fact.nextInMemory, place.lookup(op) + 1);
    }
  }

  /// While programs are looked at, before any operation goes.
  struct Known {
    Operation *op = nullptr;
    std::optional<FusedInstruction> instruction;
  };
  llvm::SmallDenseMap<OperationName, Known> knownOf;

  std::vector<Facts> facts;                                  ///< by place
  DenseMap<Operation *, size_t> place;                       ///< of operations, before any was fused
  DenseMap<Value, size_t> lastUse;                           ///< of values and views of them
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
