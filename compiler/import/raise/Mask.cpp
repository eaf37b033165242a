//===- Mask.cpp - what an attention mask is known to be -----------------------------===//
#include "compiler/import/raise/Mask.h"
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

bool zc::importer::dependsOnFloatParameter(Value value) {
  llvm::SmallVector<Value> pending{value};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !isa<FloatType>(tensorOf(next).getElementType()) || !seen.insert(next).second)
      continue;
    if (isa<ReadOp>(op))
      return true;
    pending.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

bool zc::importer::mayBeLow(Value value) {
  llvm::SmallVector<Value> pending{value};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!isa<FloatType>(tensorOf(next).getElementType()) || !seen.insert(next).second ||
        isa_and_nonnull<ReadOp, LayerNormOp, RmsNormOp, GroupNormOp, SoftmaxOp>(op)) // of these it is moderate
      continue;
    auto table = constantOf(next);
    if (!op || (table && llvm::any_of(table->floats, [](double x) { return !(std::abs(x) < 1e4); })))
      return true;
    pending.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

bool zc::importer::hidesNothing(Value mask, bool keeps) { return splatOf(mask) == 0.0 || truthOf(mask) == keeps; }

/// Does it add dimensions of 1 in front, and nothing else?
static bool onlyLeads(ReshapeOp reshape) {
  llvm::ArrayRef<int64_t> from = dimsOf(reshape.getInput()), to = dimsOf(reshape.getResult());
  return from.size() <= to.size() && to.take_back(from.size()) == from &&
         llvm::all_of(to.drop_back(from.size()), [](int64_t d) { return d == 1; });
}

/// Before it was expanded, or had dimensions of 1 put in front: null where it was not.
static Value beforeBroadcast(Operation *op) {
  if (auto expand = dyn_cast_or_null<ExpandOp>(op))
    return expand.getInput();
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  return reshape && onlyLeads(reshape) ? reshape.getInput() : Value();
}

std::optional<Hiding> zc::importer::hidingOf(Value mask) {
  while (Value before = beforeBroadcast(mask.getDefiningOp()))
    mask = before;
  auto select = mask.getDefiningOp<SelectOp>();
  if (!select)
    return std::nullopt;
  auto lhs = splatOf(select.getLhs()), rhs = splatOf(select.getRhs());
  if (lhs == 0.0 && rhs && isLow(*rhs))
    return Hiding{{select.getCondition(), true}, *rhs};
  if (rhs == 0.0 && lhs && isLow(*lhs))
    return Hiding{{select.getCondition(), false}, *lhs};
  return std::nullopt;
}

llvm::SmallVector<Condition, 2> zc::importer::partsOf(Condition condition) {
  llvm::SmallVector<Condition, 2> pending{condition}, parts;
  llvm::DenseSet<std::pair<Value, unsigned>> seen;
  while (!pending.empty()) {
    auto [value, keeps] = pending.pop_back_val();
    if (!seen.insert({value, keeps}).second) // as often as there are paths to it
      continue;
    Operation *op = value.getDefiningOp();
    if (auto negation = dyn_cast_or_null<NotOp>(op))
      pending.push_back({negation.getInput(), !keeps});
    else if (Value before = beforeBroadcast(op))
      pending.push_back({before, keeps});
    else if (op && (keeps ? isa<AndOp>(op) : isa<OrOp>(op)))
      pending.append({{op->getOperand(1), keeps}, {op->getOperand(0), keeps}});
    else if (!hidesNothing(value, keeps))
      parts.push_back({value, keeps});
  }
  return parts;
}

Value zc::importer::conjunctionOf(llvm::ArrayRef<Condition> conditions, Location loc, PatternRewriter &rewriter) {
  TensorBuilder on(rewriter, loc);
  Value kept;
  for (auto [condition, keeps] : conditions) {
    Value where = keeps ? condition : on.make<NotOp>(condition);
    kept = kept ? on.make<AndOp>(kept, where) : where;
  }
  return kept;
}

Value zc::importer::withRank(Value value, int64_t rank, PatternRewriter &rewriter) {
  llvm::SmallVector<int64_t, 4> shape(dimsOf(value));
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return rewriter.create<ReshapeOp>(value.getLoc(), value, shape);
}

static bool hasSamples(Value value) { return dimsOf(value).size() == 4 && dimsOf(value)[0] > 1; }

/// What all samples of a table are; nothing where they differ.
static std::optional<HostTensor> oneSample(HostTensor table) {
  const int64_t elements = table.numElements();
  table.dims[0] = 1;
  const int64_t part = table.numElements();
  for (int64_t i = part; !table.splat && i < elements; ++i)
    if (table.isFloat() ? !(table.floats[i] == table.floats[i % part]) : table.ints[i] != table.ints[i % part])
      return std::nullopt;
  if (!table.splat)
    table.isFloat() ? table.floats.resize(part) : table.ints.resize(part);
  return table;
}

bool zc::importer::isSameForSamples(Value value, int depth) {
  if (dimsOf(value).size() > 4)
    return false;
  if (!hasSamples(value))
    return true;
  if (auto table = constantOf(value))
    return oneSample(std::move(*table)).has_value();
  Operation *op = value.getDefiningOp();
  return op && depth > 0 && op->getNumResults() == 1 && (op->hasTrait<Elementwise>() || isa<ExpandOp>(op)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isSameForSamples(operand, depth - 1); });
}

Value zc::importer::ofOneSample(Value value, PatternRewriter &rewriter) {
  if (!hasSamples(value))
    return value;
  Location loc = value.getLoc();
  if (auto table = constantOf(value))
    return rewriter.create<ConstantOp>(loc, toAttribute(*oneSample(std::move(*table)), rewriter.getContext()));
  llvm::SmallVector<int64_t, 4> shape(dimsOf(value));
  shape[0] = 1;
  Operation *op = value.getDefiningOp();
  llvm::SmallVector<Value, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(ofOneSample(operand, rewriter));
  if (isa<ExpandOp>(op))
    return rewriter.create<ExpandOp>(loc, operands[0], shape);
  OperationState state(loc, op->getName(), operands, tensorOf(value).clone(shape), op->getAttrs());
  return rewriter.create(state)->getResult(0);
}
