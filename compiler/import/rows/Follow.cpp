//===- Follow.cpp - picked rows through what computes with them ----------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/rows/Finite.h"
#include "compiler/import/rows/PickedRows.h"

#include "dialects/graph/Cut.h"
#include "dialects/graph/Sharding.h"

#include <cmath>
#include <limits>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

/// What one operation makes of picked rows.
struct PickedRows::Across {
  explicit Across(Operation *op) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      isDone.emplace_back(graph::tensorOf(op->getOperand(i)).getRank(), false);
    for (Value result : op->getResults())
      results.emplace_back(graph::tensorOf(result).getRank());
  }
  llvm::SmallVector<llvm::SmallVector<bool>> isDone; ///< by operand and dimension
  llvm::SmallVector<RowMasks> results;
  llvm::SmallVector<std::pair<unsigned, int64_t>> neutral; ///< operands and dimensions that get the neutral element
  RowMasks neutralMasks;

  void neutralize(unsigned operand, int64_t dim, const RowMask &mask) {
    neutral.push_back({operand, dim});
    neutralMasks.push_back(mask);
  }
};

/// Dimension `dim` of operand `index` and what goes with it.
Status PickedRows::followDimension(Operation *op, unsigned index, int64_t dim, Across &across) {
  const RowMask mask = *maskAt(op->getOperand(index), dim);
  across.isDone[index][dim] = true;
  auto neutral = dyn_cast<Neutral>(op);
  bool hasNeutral = neutral && (isa<FloatType>(elementOf(op->getOperand(index))) || // integers have no infinity
                                std::isfinite(neutral.getNeutralElement()));
  std::string why;
  std::optional<OpCut> cut = graph::cutAlong(op, index, TensorCut{dim}, /*ranks=*/1, why);
  if (!cut && hasNeutral && op->getNumOperands() == 1) { // a whole dimension goes into each of its results
    across.neutralize(index, dim, mask);
    if (op->getResult(0).getType() == op->getOperand(0).getType())
      across.results[0][dim] = mask;
    return Status::success();
  }
  if (!cut)
    return rowsError(op, "computes across rows that a mask picked (" + Twine(why) + ")");
  bool isWhole = true;
  auto fits = [&](Value tensor, const TensorCut &own) {
    return own.groups == 1 && graph::shapeOf(tensor)[own.dim] == mask.size();
  };
  llvm::SmallVector<std::pair<unsigned, int64_t>> together;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (!cut->operands[i])
      continue;
    int64_t own = cut->operands[i]->dim;
    Value operand = op->getOperand(i);
    isWhole &= fits(operand, *cut->operands[i]);
    across.isDone[i][own] = true;
    together.push_back({i, own});
    if (const RowMask *other = maskAt(operand, own); other && !areSame(*other, mask))
      return rowsError(op, "brings together rows that two masks picked, which are not the same value");
    else if (!other && !isUniform(operand, own))
      return rowsError(op, "brings together rows that a mask picked and " + toText(graph::shapeOf(operand)) +
                               ", which has all rows");
  }
  bool isReduced = false;
  for (unsigned r = 0; r < op->getNumResults(); ++r) {
    if (!cut->results[r]) {
      isReduced = true;
      continue;
    }
    isWhole &= fits(op->getResult(r), *cut->results[r]);
    if (isWhole)
      across.results[r][cut->results[r]->dim] = mask;
  }
  if (!isWhole || (isReduced && !hasNeutral))
    return rowsError(op, "computes across rows that a mask picked");
  for (auto [operand, own] : together)
    if (isReduced)
      across.neutralize(operand, own, mask);
  return Status::success();
}

/// The sum of the rows that count, by their number: 0/0 where none does, as torch.
Result<PickedRows::Values> PickedRows::followMean(Operation *op) {
  auto mean = cast<ReduceMeanOp>(op);
  TensorBuilder on(builder, op->getLoc());
  Value x = mean.getInput(), number;
  const RowMasks masks(masksOf(x));
  Type element = elementOf(x), wide = statisticsType(element);
  double others = 1;
  for (int64_t axis : mean.getAxes()) {
    if (!masks[axis]) {
      others *= double(graph::shapeOf(x)[axis]);
      continue;
    }
    x = replaced(on, x, axis, masks[axis], 0);
    Value own = on.make<CastOp>(count(on, masks[axis]), TypeAttr::get(wide));
    number = number ? on.mul(number, own) : own;
  }
  Value sum = on.reduceSum(x, mean.getAxes(), mean.getKeepdims());
  if (element != wide)
    sum = on.make<CastOp>(sum, TypeAttr::get(wide));
  Value result = on.div(sum, on.scale(number, others));
  if (element != wide)
    result = on.make<CastOp>(result, TypeAttr::get(element));
  return Values{result};
}

/// A row that does not count has the label that is ignored.
Status PickedRows::followCrossEntropy(Operation *op) {
  auto loss = cast<CrossEntropyOp>(op);
  const RowMask *logits = maskAt(loss.getLogits(), 0), *labels = maskAt(loss.getLabels(), 0);
  if (maskAt(loss.getLogits(), 1))
    return rowsError(op, "has classes that a mask picked");
  if (!logits || !labels)
    return rowsError(op, "has scores or labels of rows that a mask picked, and the others of all rows");
  if (!areSame(*logits, *labels))
    return rowsError(op, "brings together rows that two masks picked, which are not the same value");
  TensorBuilder on(builder, op->getLoc());
  const RowMask mask = *labels;
  Type wide = IntegerType::get(op->getContext(), 64);
  Value value = loss.getLabels();
  if (elementOf(value) != wide)
    value = on.make<CastOp>(value, TypeAttr::get(wide));
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min(), kOfNoLabel = -(int64_t(1) << 62);
  if (int64_t(loss.getIgnoreIndex()) == kNone) // which says that all rows count
    loss.setIgnoreIndex(kOfNoLabel);
  op->setOperand(1, replaced(on, value, 0, mask, double(int64_t(loss.getIgnoreIndex()))));
  infos[loss.getLse()].masks = {mask};
  return Status::success();
}

Status PickedRows::followReshape(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  std::string why;
  auto masks = reshaped(masksOf(from), graph::shapeOf(from), graph::shapeOf(to), why);
  if (!masks)
    return rowsError(op, "brings rows that a mask picked into another shape: " + Twine(why));
  infos[to].masks = std::move(*masks);
  return Status::success();
}

/// `by` in the rows of an operand that do not count.
void PickedRows::replaceOperand(Operation *op, unsigned index, double by) {
  TensorBuilder on(builder, op->getLoc());
  for (auto [dim, mask] : llvm::enumerate(RowMasks(masksOf(op->getOperand(index)))))
    if (mask) {
      Value safe = replaced(on, op->getOperand(index), int64_t(dim), mask, by);
      countAs(safe, op->getOperand(index));
      op->setOperand(index, safe);
    }
}

/// Where no row counts, an operand of all rows is 1: it may be their mean, which is 0/0.
void PickedRows::guardShared(Operation *op) {
  RowMask mask;
  for (Value operand : op->getOperands())
    for (const RowMask &own : masksOf(operand))
      mask = mask ? mask : own;
  TensorBuilder on(builder, op->getLoc());
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!mask || infos.count(value) || !isa<FloatType>(elementOf(value)) || !mayDivideBy0(value, constants))
      continue;
    Value rows = count(on, mask);
    operand.set(on.select(on.less(on.scalar(0, rows), rows), value, on.scalar(1, value)));
  }
}

/// What a row that does not count names need not be there (labels of -100).
void PickedRows::neutralizeIndices(Operation *op) { replaceOperand(op, isa<LabelIndexOp>(op) ? 0 : 1, 0); }

Result<llvm::SmallVector<Value>> PickedRows::follow(Operation *op) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  auto positions = followPositions(op);
  if (!positions.ok())
    return positions.error();
  if (*positions)
    return std::move(**positions);
  Values results(op->getResults());
  if (isa<ReshapeOp>(op)) {
    ZC_RETURN_IF_ERROR(followReshape(op));
  } else if (isa<BitcastOp>(op)) { // torch's detach
    countAs(op->getResult(0), op->getOperand(0));
  } else if (isa<CrossEntropyOp>(op)) {
    ZC_RETURN_IF_ERROR(followCrossEntropy(op));
    return results;
  } else {
    auto mean = dyn_cast<ReduceMeanOp>(op);
    bool isOfRows = mean && llvm::any_of(mean.getAxes(), [&](int64_t axis) { return maskAt(mean.getInput(), axis); });
    if (isa<GatherOp, GatherElementsOp, LabelIndexOp>(op))
      neutralizeIndices(op);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (std::optional<double> number = harmlessNumber(op, i, constants))
        replaceOperand(op, i, *number);
    guardShared(op);
    Across across(op);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (int64_t dim = 0, rank = graph::tensorOf(op->getOperand(i)).getRank(); dim < rank; ++dim) {
        bool isLeft = maskAt(op->getOperand(i), dim) && !across.isDone[i][dim];
        if (isLeft && !(isOfRows && llvm::is_contained(mean.getAxes(), dim)))
          ZC_RETURN_IF_ERROR(followDimension(op, i, dim, across));
      }
    TensorBuilder on(builder, op->getLoc());
    for (auto [at, mask] : llvm::zip(across.neutral, across.neutralMasks))
      op->setOperand(at.first,
                     replaced(on, op->getOperand(at.first), at.second, mask, cast<Neutral>(op).getNeutralElement()));
    if (!across.neutral.empty() && isa<SoftmaxOp, LogSoftmaxOp>(op)) // where no row counts
      op->setAttr("zero_masked", builder.getUnitAttr());
    if (isOfRows) {
      auto made = followMean(op);
      if (!made.ok())
        return made.error();
      results = std::move(*made);
    }
    for (auto [result, masks] : llvm::zip(results, across.results))
      if (llvm::any_of(masks, [](const RowMask &mask) { return bool(mask); }))
        infos[result].masks = std::move(masks);
  }
  if (std::optional<Places> places = placesThrough(op); places && infos.count(results[0]))
    infos[results[0]].places = std::move(places);
  return results;
}
