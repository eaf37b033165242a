//===- CutClass.cpp - dimensions that are cut together ------------------------------------===//

#include "compiler/grad/CutClass.h"

using namespace mlir;
using namespace zc;
using namespace zc::graph;

CutContext::CutContext(ProgramOp program, int64_t ranks) : ranks(ranks) {
  for (auto parameter : program->getParentOfType<ModuleOp>().getOps<ParameterOp>()) {
    if (parameter.getRole() == Role::buffer)
      continue;
    weights.push_back(parameter);
    byName[parameter.getSymName()] = parameter;
  }
  for (Operation &op : program.getBlock()) {
    auto read = dyn_cast<ReadOp>(op);
    ParameterOp weight = read ? byName.lookup(read.getParameter()) : ParameterOp();
    if (weight)
      reads[weight].push_back(read.getResult());
    bool isOn = weight || llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
    for (Value result : op.getResults())
      if (isOn && isa<FloatType>(cast<RankedTensorType>(result.getType()).getElementType()))
        active.insert(result);
  }
}

ParameterOp CutContext::weightOf(Value value) const {
  auto read = value.getDefiningOp<ReadOp>();
  return read ? byName.lookup(read.getParameter()) : ParameterOp();
}

namespace {

double sizeOf(Value value) { return double(bytesOf(cast<RankedTensorType>(value.getType()))); }

/// Grows one class.
class Growth {
public:
  Growth(const CutContext &context, Reach reach) : context(context), reach(reach) {}

  CutClass run(ParameterOp seed, TensorCut cut) {
    addWeight(seed, cut);
    while (!work.empty()) {
      Value value = work.pop_back_val();
      followProducer(value);
      followUsers(value);
    }
    price();
    if (isRagged)
      checkPadding();
    if (result.operations.empty())
      fail(border.empty() ? "nothing is computed with it" : border);
    return std::move(result);
  }

private:
  void fail(const Twine &problem) {
    if (result.problem.empty())
      result.problem = problem.str();
  }

  void addWeight(ParameterOp weight, TensorCut cut) {
    auto [entry, isNew] = result.weights.insert({weight, cut});
    if (!isNew)
      return entry->second == cut ? void() : fail("it would be cut along two dimensions");
    auto type = cast<RankedTensorType>(weight.getType());
    result.elements += type.getNumElements();
    isRagged |= !dividesEvenly(type.getShape(), cut, context.ranks);
    if (isRagged && ragged.empty())
      ragged = std::to_string(context.ranks) + " ranks do not divide the " +
               std::to_string(type.getDimSize(static_cast<unsigned>(cut.dim)) / cut.groups) + " of '" +
               weight.getSymName().str() + "'";
    if (!partType(type, cut, context.ranks))
      fail(ragged);
    if (auto reads = context.reads.find(weight); reads != context.reads.end())
      for (Value read : reads->second)
        addValue(read, cut);
  }

  void addValue(Value value, TensorCut cut) {
    auto [entry, isNew] = values.insert({value, cut});
    if (!isNew)
      return entry->second == cut ? void() : fail("a tensor would be cut along two dimensions");
    if (isa<BlockArgument>(value) && reach == Reach::near)
      return void(sliced.insert(value));
    if (isa<BlockArgument>(value))
      return fail("inputs are not cut");
    work.push_back(value);
  }

  /// Can `op` be computed in parts with tensor `index` cut so? Then all its cut tensors belong to the class.
  bool addOperation(Operation *op, unsigned index, TensorCut cut) {
    if (auto known = result.operations.find(op); known != result.operations.end()) {
      const OpCut &own = known->second;
      const std::optional<TensorCut> &there =
          index < op->getNumOperands() ? own.operands[index] : own.results[index - op->getNumOperands()];
      if (there && *there != cut)
        fail("operation '" + op->getName().stripDialect().str() + "' would be cut along two dimensions");
      return there.has_value();
    }
    std::string why;
    std::optional<OpCut> own = cutAlong(op, index, cut, context.ranks, why);
    if (!own) {
      if (border.empty())
        border = why;
      return false;
    }
    result.operations.insert({op, *own});
    for (auto [operand, there] : llvm::zip(op->getOperands(), own->operands))
      if (there)
        addValue(operand, *there);
    for (auto [value, there] : llvm::zip(op->getResults(), own->results))
      if (there)
        addValue(value, *there);
    return true;
  }

  void followProducer(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || result.operations.count(op))
      return;
    if (ParameterOp weight = context.weightOf(value))
      return addWeight(weight, values[value]);
    bool stops = reach == Reach::near && op->getNumOperands() > 1;
    if (stops || !addOperation(op, op->getNumOperands() + cast<OpResult>(value).getResultNumber(), values[value]))
      sliced.insert(value);
  }

  /// Near: a class reaches through a chain of operations with one operand, to the first with more.
  bool ends(Value value) {
    Operation *op = value.getDefiningOp();
    return reach == Reach::near && !context.weightOf(value) && op->getNumOperands() > 1;
  }

  void followUsers(Value value) {
    for (OpOperand &use : value.getUses())
      if (ends(value) || !addOperation(use.getOwner(), use.getOperandNumber(), values[value]))
        gathered.insert(value);
  }

  /// Bytes that a rank sends: a sum over ranks twice what others have of it, as reduce-scatter and all-gather.
  void price() {
    double others = double(context.ranks - 1) / double(context.ranks);
    llvm::SetVector<Value> diverging;
    for (auto &[op, own] : result.operations) {
      result.bytes += 2 * others * own.reducedBytes;
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (!own.operands[i] && !llvm::is_contained(own.behind, i) && context.isActive(operand))
          diverging.insert(operand);
    }
    for (Value value : diverging)
      result.bytes += 2 * others * sizeOf(value);
    for (Value value : gathered)
      result.bytes += others * sizeOf(value);
    for (Value value : sliced)
      if (context.isActive(value))
        result.bytes += others * sizeOf(value);
  }

  void checkPadding() {
    bool bears = gathered.empty() && sliced.empty();
    for (auto &[op, own] : result.operations)
      bears &= own.bearsPadding;
    if (!bears)
      fail(ragged + (border.empty() ? "" : "; ") + border);
  }

  const CutContext &context;
  Reach reach;
  CutClass result;
  bool isRagged = false;
  std::string ragged; ///< which weight is, first
  std::string border; ///< why the class ends where it first does
  DenseMap<Value, TensorCut> values;
  SmallVector<Value> work;
  llvm::SetVector<Value> gathered, sliced; ///< what leaves the class, and what enters it
};

} // namespace

CutClass zc::growClass(const CutContext &context, ParameterOp seed, TensorCut cut, Reach reach) {
  return Growth(context, reach).run(seed, cut);
}
