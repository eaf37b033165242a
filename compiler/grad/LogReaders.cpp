#include "compiler/grad/LogReaders.h"
#include "compiler/grad/HeadOperands.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace zc::graph {
namespace {

using IsLive = llvm::function_ref<bool(OpOperand &)>;

/// Is it over the classes of `logs`?
template <typename ReduceOp> bool isOverClasses(ReduceOp op, Value logs) {
  return op.getAxes() == ArrayRef<int64_t>{static_cast<int64_t>(shapeOf(logs).size()) - 1};
}
bool sumsClasses(Operation *op, Value logs) {
  if (auto sum = dyn_cast<ReduceSumOp>(op))
    return isOverClasses(sum, logs);
  auto mean = dyn_cast<ReduceMeanOp>(op);
  return mean && isOverClasses(mean, logs);
}

/// Is it one number of each row?
bool picksOne(GatherElementsOp op, Value logs) {
  ArrayRef<int64_t> shape = shapeOf(logs), indices = shapeOf(op.getIndices());
  return op.getData() == logs && op.getAxis() == shape.size() - 1 && indices.back() == 1 &&
         indices.drop_back() == shape.drop_back();
}

/// The row of weights that `op` multiplies all of `logs` by; null if it does something else.
Value weightsOf(Operation *op, Value logs) {
  if (!isa<MulOp>(op) || op->getResult(0).getType() != logs.getType())
    return {};
  Value other = op->getOperand(op->getOperand(0) == logs ? 1 : 0);
  return other != logs && isRowOf(other, logs) ? other : Value();
}

} // namespace

bool LogReaders::read(Value logs, bool isNegated, Value by, IsLive isLive) {
  return llvm::all_of(logs.getUses(), [&](OpOperand &use) {
    return !isLive(use) || readBy(use.getOwner(), logs, isNegated, by, isLive);
  });
}

/// `by`: the weights that `logs` have been multiplied by.
bool LogReaders::readBy(Operation *op, Value logs, bool isNegated, Value by, IsLive isLive) {
  if (sumsClasses(op, logs)) {
    if (!sums.empty() && weights != by)
      return false;
    weights = by;
    sums.push_back({op, isNegated});
    return true;
  }
  through.push_back(op); // unless it turns out to be none
  if (isa<NegOp>(op))
    return read(op->getResult(0), !isNegated, by, isLive);
  if (by)
    return false;
  if (auto gather = dyn_cast<GatherElementsOp>(op)) {
    if (!picksOne(gather, logs) || (indices && indices != gather.getIndices()))
      return false;
    indices = gather.getIndices();
    through.pop_back();
    picks.push_back({op, isNegated});
    return true;
  }
  if (!isa<SliceOp>(op) && leavesClasses(op)) // the same rows
    return read(op->getResult(0), isNegated, by, isLive);
  Value row = weightsOf(op, logs);
  return row && read(op->getResult(0), isNegated, row, isLive);
}

std::optional<LogReaders> LogReaders::of(LogSoftmaxOp logs, IsLive isLive) {
  LogReaders readers;
  Value result = logs.getResult();
  if (shapeOf(result).empty() || logs.getAxis() != shapeOf(result).size() - 1 ||
      !readers.read(result, false, {}, isLive) || readers.picks.empty())
    return std::nullopt;
  return readers;
}

bool LogReaders::hoistBefore(LogSoftmaxOp logs) {
  llvm::SetVector<Operation *> makers;
  auto collect = [&](Value value) {
    if (Operation *op = value ? value.getDefiningOp() : nullptr; op && logs->isBeforeInBlock(op))
      makers.insert(op);
  };
  collect(indices);
  collect(weights);
  for (size_t i = 0; i < makers.size(); ++i)
    for (Value operand : SmallVector<Value>(makers[i]->getOperands()))
      collect(operand);
  auto isPinned = [&](Operation *op) {
    return !isMemoryEffectFree(op) || llvm::is_contained(op->getOperands(), logs.getResult());
  };
  if (llvm::any_of(makers, isPinned))
    return false;
  SmallVector<Operation *> inOrder = makers.takeVector();
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : inOrder)
    op->moveBefore(logs);
  return true;
}

Value LogReaders::buildLabels(TensorBuilder &on) { return on.reshape(indices, {tensorOf(indices).getNumElements()}); }

Value LogReaders::buildShares(TensorBuilder &on, int64_t classes) {
  MLIRContext *context = indices.getContext();
  const Type wide = Float32Type::get(context);
  auto all = [&](double share) {
    const auto type = RankedTensorType::get({classes}, wide);
    return on.make<ConstantOp>(DenseElementsAttr::get(type, static_cast<float>(share)));
  };
  const double each = 1 / static_cast<double>(std::max<int64_t>(1, classes));
  if (!weights)
    return all(sums.empty() ? 0 : each);
  Value row = on.reshape(weights, {classes});
  if (elementOf(row) != wide)
    row = on.make<CastOp>(row, TypeAttr::get(wide));
  return on.scale(row, each);
}

void LogReaders::replace(Value picked, Value shared, int64_t classes) {
  auto replaceBy = [&](const Reader &reader, Value value, double factor) {
    Value was = reader.op->getResult(0);
    OpBuilder builder(reader.op);
    TensorBuilder on(builder, reader.op->getLoc());
    if (reader.isNegated)
      value = on.neg(value);
    if (factor != 1)
      value = on.scale(value, factor);
    if (elementOf(value) != elementOf(was))
      value = on.make<CastOp>(value, TypeAttr::get(elementOf(was)));
    was.replaceAllUsesWith(on.reshape(value, shapeOf(was)));
    reader.op->erase();
  };
  for (const Reader &pick : picks)
    replaceBy(pick, picked, 1);
  for (const Reader &sum : sums)
    replaceBy(sum, shared, isa<ReduceSumOp>(sum.op) ? double(classes) : 1);
  for (Operation *op : llvm::reverse(through))
    if (op->use_empty())
      op->erase();
}

} // namespace zc::graph
