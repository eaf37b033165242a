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
  FailureOr<TensorType> type = toTensorType(value.getType());
  if (!elements || !elements.isSplat() || failed(type) || !isFusedType(type->dtype))
    return std::nullopt;
  if (type->dtype == DType::boolean)
    return elements.getSplatValue<bool>() ? 1.0f : 0.0f;
  return static_cast<float>(elements.getSplatValue<APFloat>().convertToDouble());
}

/// What `op` is in a program; nothing where it has no place in one.
std::optional<FusedInstruction> instructionOf(Operation *op) {
  if (!isElementwise(op) || op->getNumResults() != 1 || !isa<KernelOp>(op))
    return std::nullopt;
  for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes())))
    if (auto tensor = toTensorType(type); failed(tensor) || !isFusedType(tensor->dtype))
      return std::nullopt;
  FailureOr<KernelSpec> spec = toKernelSpec(op);
  return succeeded(spec) ? fusedInstructionOf(*spec) : std::nullopt;
}

bool isFusable(Operation *op) { return instructionOf(op).has_value(); }

/// A group as a program and its operands.
struct Fused {
  FusedProgram program;
  SmallVector<Value> inputs, results;
};

class ElementwiseFuser {
public:
  explicit ElementwiseFuser(ProgramOp program) : program(program) {
    int64_t next = 0;
    Operation *backward = program.getBackward();
    for (Operation &op : program.getBlock()) {
      place[&op] = next++;
      isBehind[&op] = backward && !op.isBeforeInBlock(backward);
      for (Value operand : op.getOperands())
        lastUse[viewedValue(operand)] = place[&op];
      if (auto assign = dyn_cast<AssignOp>(op))
        assigns[assign.getParameterAttr()].push_back(place[&op]);
    }
  }

  /// Groups and members of them.
  std::pair<unsigned, unsigned> run() {
    std::pair<unsigned, unsigned> counts;
    SmallVector<Operation *> roots;
    for (Operation &op : llvm::reverse(program.getBlock()))
      if (isFusable(&op))
        roots.push_back(&op);
    for (Operation *root : roots) {
      if (gone.contains(root))
        continue;
      Members members = grow(root);
      Fused fused = build(members, root);
      if (!isWorthIt(members))
        continue;
      replace(members, root, fused);
      counts.first += 1;
      counts.second += members.size();
    }
    for (Operation *op : gone)
      op->erase();
    return counts;
  }

private:
  Members grow(Operation *root) {
    Members members;
    members.insert(root);
    for (bool grew = true; grew;) {
      grew = false;
      for (Operation *candidate : makersOf(members)) {
        if (!mayJoin(candidate, members, root))
          continue;
        members.insert(candidate);
        if (fits(members, root))
          grew = true;
        else
          members.pop_back();
        if (grew)
          break; // others' users may all be members now
      }
    }
    return members;
  }

  /// What made the members' operands, the last first.
  SmallVector<Operation *> makersOf(const Members &members) const {
    llvm::SmallSetVector<Operation *, 8> makers;
    for (Operation *member : members)
      for (Value operand : member->getOperands())
        if (Operation *maker = operand.getDefiningOp(); maker && !members.contains(maker))
          makers.insert(maker);
    SmallVector<Operation *> sorted = makers.takeVector();
    llvm::sort(sorted, [&](Operation *a, Operation *b) { return place.lookup(a) > place.lookup(b); });
    return sorted;
  }

  /// Are all uses of `op` by members?
  static bool isInner(Operation *op, const Members &members) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) { return members.contains(user); });
  }

  bool mayJoin(Operation *candidate, const Members &members, Operation *root) const {
    if (gone.contains(candidate) || isBehind.lookup(candidate) != isBehind.lookup(root) ||
        typeOf(candidate->getResult(0)).getShape() != typeOf(root->getResult(0)).getShape())
      return false;
    const bool inner = isInner(candidate, members);
    if (isa<ExpandOp>(candidate)) {
      FailureOr<TensorType> type = toTensorType(candidate->getOperand(0).getType());
      if (!inner || failed(type) || !isFusedType(type->dtype))
        return false;
    } else if (!isFusable(candidate)) {
      return false;
    }
    auto isServed = [&](Operation *user) { return members.contains(user) || place.lookup(user) > place.lookup(root); };
    return llvm::all_of(candidate->getUsers(), isServed) && !readsWhatChanges(candidate, root) &&
           keepsNoMore(candidate, members, inner);
  }

  /// Is a parameter that the candidate reads assigned before the root?
  bool readsWhatChanges(Operation *candidate, Operation *root) const {
    auto changes = [&](Value operand) {
      auto read = viewedValue(operand).getDefiningOp<ReadOp>();
      auto found = read ? assigns.find(read.getParameterAttr()) : assigns.end();
      return found != assigns.end() && llvm::any_of(found->second, [&](int64_t at) {
               return at > place.lookup(candidate) && at < place.lookup(root);
             });
    };
    return llvm::any_of(candidate->getOperands(), changes);
  }

  /// Between the candidate and the root its operands live on, where nobody else needs them, and its result does not.
  bool keepsNoMore(Operation *candidate, const Members &members, bool inner) const {
    Operation *root = members[0];
    auto takesMemory = [&](Operation &op) {
      return !isView(&op) && !isFreeToRecompute(&op) && !gone.contains(&op) && !members.contains(&op);
    };
    if (llvm::none_of(llvm::make_range(std::next(candidate->getIterator()), root->getIterator()), takesMemory))
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

  /// Is it a program that a kernel takes? Of several results, only the first can lie over an operand.
  bool fits(const Members &members, Operation *root) const {
    const Fused fused = build(members, root);
    if (fused.inputs.size() > kFusedInputs || fused.results.size() > kFusedResults ||
        fused.inputs.size() + fused.program.instructions.size() > kFusedRegisters)
      return false;
    if (fused.results.size() == 1)
      return true;
    return llvm::count_if(fused.inputs, [&](Value input) {
             return lastUse.lookup(viewedValue(input)) <= place.lookup(root) &&
                    llvm::any_of(fused.results, [&](Value result) { return result.getType() == input.getType(); });
           }) <= 1;
  }

  static SmallVector<Operation *> inOrder(const Members &members) {
    SmallVector<Operation *> sorted(members.begin(), members.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
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
          fused.program.inputs.push_back(toTensorType(operand.getType())->dtype);
        }
    auto define = [&](FusedInstruction instruction) {
      fused.program.instructions.push_back(instruction);
      return fused.inputs.size() + fused.program.instructions.size() - 1;
    };
    auto registerOf = [&](Value value) {
      std::optional<float> immediate = immediateOf(value);
      if (auto found = registers.find(value); found != registers.end() || !immediate)
        return found->second;
      return registers[value] = define({FusedCode::constant, toTensorType(value.getType())->dtype, {}, *immediate});
    };
    for (Operation *op : sorted) {
      if (isa<ExpandOp>(op)) {
        registers[op->getResult(0)] = registerOf(op->getOperand(0));
        continue;
      }
      FusedInstruction instruction = *instructionOf(op);
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
    place[made] = place.lookup(root);
    isBehind[made] = isBehind.lookup(root);
    for (Value input : fused.inputs)
      lastUse[viewedValue(input)] = std::max(lastUse[viewedValue(input)], place[made]);
    for (auto [old, result] : llvm::zip(fused.results, made.getResults())) {
      lastUse[result] = lastUse.lookup(old);
      Value(old).replaceAllUsesWith(result);
    }
    for (Operation *op : llvm::reverse(sorted)) {
      op->dropAllReferences();
      gone.insert(op);
    }
  }

  ProgramOp program;
  DenseMap<Operation *, int64_t> place;                       ///< of operations, before any was fused
  DenseMap<Operation *, bool> isBehind;                       ///< the border to the backward
  DenseMap<Value, int64_t> lastUse;                           ///< of values and views of them
  DenseMap<mlir::Attribute, SmallVector<int64_t, 1>> assigns; ///< of parameters, in order
  llvm::SetVector<Operation *> gone;                          ///< fused
};

struct FuseElementwise : StagePass<impl::FuseElementwiseBase<FuseElementwise>, GradOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on || options.target != Target::cpu) // the others have no kernel for it
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
