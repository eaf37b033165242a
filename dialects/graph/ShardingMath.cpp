//===- ShardingMath.cpp - products, norms, attention and the loss in parts ----------------===//
#include "dialects/graph/Sharding.h"

#include <limits>

using namespace mlir;
using namespace zc::graph;

//===-- products -------------------------------------------------------------===//

ZC_CUT(MatmulOp) {
  std::string leading = lettersOf(getResult(), 'A');
  leading.resize(leading.size() - 2);
  auto of = [&](Value operand, StringRef matrix) {
    return StringRef(leading).take_back(tensorOf(operand).getRank() - 2).str() + matrix.str();
  };
  Factors factors{{of(getLhs(), getTransLhs() ? "km" : "mk"), of(getRhs(), getTransRhs() ? "nk" : "kn")}, "k", {2}};
  if (getBias())
    factors.tensors.push_back("n");
  else
    factors.behind.clear();
  factors.tensors.push_back(leading + "mn");
  return cutByFactors(*this, factors, index, cut, ranks, why);
}

ZC_PARTS(MatmulOp) {
  if (cut.results[0])
    return buildSameOnParts(builder, *this, cut, operands, ranks);
  TensorBuilder on(builder, getLoc());
  Value part = on.make<MatmulOp>(operands[0], operands[1], Value(), getTransLhs(), getTransRhs());
  Value bias = operands.size() > 2 ? operands[2] : Value();
  return {sumOverRanks(on, part, bias, bias ? shapeOf(bias) : ArrayRef<int64_t>())};
}

/// A sum over the ranks that is wanted in parts leaves each rank its own, with the same bits. What is summed stays.
ZC_CUT(AllReduceOp) {
  if (index != 1 || getMax() || !dividesEvenly(shapeOf(getResult()), cut, ranks)) {
    why = std::to_string(ranks) + " ranks do not divide dimension " + std::to_string(cut.dim) + " of " +
          toText(shapeOf(getResult())) + ", which they sum";
    return std::nullopt;
  }
  OpCut all = wholeCut(*this);
  all.behind = {0};
  all.results[0] = cut;
  return all;
}

ZC_PARTS(AllReduceOp) { return {scatterSum(builder, getLoc(), operands[0], *cut.results[0], ranks)}; }

/// What divides may not be filled up with zeros.
ZC_CUT(DivOp) {
  std::optional<OpCut> all = cutElementwise(*this, index, cut, ranks, why);
  if (all)
    all->bearsPadding = !all->operands[1];
  return all;
}

//===-- norms, attention, dropout -------------------------------------------------===//

/// Rows are independent; scale and bias, of which each rank's rows need all, are whole.
static std::optional<OpCut> cutNorm(Operation *op, int64_t axis, unsigned index, TensorCut cut, int64_t ranks,
                                    std::string &why) {
  std::string rows = lettersOf(op->getOperand(0)).substr(0, axis);
  Factors factors;
  auto within = [&](Value tensor) { return std::string(tensorOf(tensor).getRank() - axis, '.'); };
  factors.tensors.push_back(rows + within(op->getOperand(0)));
  for (Value vector : op->getOperands().drop_front())
    factors.tensors.push_back(std::string(tensorOf(vector).getRank(), '.'));
  factors.tensors.push_back(rows + within(op->getResult(0)));
  factors.tensors.append(op->getNumResults() - 1, rows);
  return cutByFactors(op, factors, index, cut, ranks, why);
}
ZC_CUT(LayerNormOp) { return cutNorm(*this, getAxis(), index, cut, ranks, why); }
ZC_CUT(RmsNormOp) { return cutNorm(*this, getAxis(), index, cut, ranks, why); }

/// By samples and by heads; of grouped queries with their keys and values, of which a single head is all ranks'.
ZC_CUT(AttentionOp) {
  if (getRun()) {
    why = "a dropout in parts is not cut again";
    return std::nullopt;
  }
  const std::string keys = shapeOf(getKey())[1] == 1 && shapeOf(getQuery())[1] > 1 ? "b..." : "bh..";
  Factors factors{{"bh..", keys, keys}};
  if (getMask())
    factors.tensors.push_back("bh..");
  factors.tensors.append({"bh..", "bh."});
  factors.bearsPadding = false;
  return cutByFactors(*this, factors, index, cut, ranks, why);
}

/// Draws what the uncut program draws for this part: random numbers are counted by the index in the whole.
ZC_PARTS(AttentionOp) {
  llvm::SmallVector<Value> results = buildSameOnParts(builder, *this, cut, operands, ranks);
  if (getDropout() && cut.results[0]) {
    auto whole = RankedTensorType::get(
        {shapeOf(getQuery())[0], shapeOf(getQuery())[1], shapeOf(getQuery())[2], shapeOf(getKey())[2]},
        elementOf(getQuery()));
    NumbersOfRank numbers(whole, *cut.results[0], ranks);
    auto part = results[0].getDefiningOp<AttentionOp>();
    part.setRunAttr(numbers.run);
    part.setStrideAttr(numbers.stride);
  }
  return results;
}

ZC_CUT(DropoutOp) {
  if (getRun()) {
    why = "a dropout in parts is not cut again";
    return std::nullopt;
  }
  std::string letters = lettersOf(getInput());
  Factors factors{{letters, letters, letters}};
  factors.bearsPadding = false;
  return cutByFactors(*this, factors, index, cut, ranks, why);
}

/// As attention's.
ZC_PARTS(DropoutOp) {
  TensorBuilder on(builder, getLoc());
  NumbersOfRank numbers(getInput().getType(), *cut.results[0], ranks);
  return llvm::to_vector(ValueRange(
      on.create<DropoutOp>(operands[0], getRatioAttr(), getIdAttr(), numbers.run, numbers.stride)->getResults()));
}

//===-- loss -----------------------------------------------------------------===//

/// By classes: the logits are never gathered (Megatron's vocabulary-parallel cross-entropy, arXiv 1909.08053).
ZC_CUT(CrossEntropyOp) {
  if (index != 0 || cut.dim != 1 || cut.groups != 1) {
    why = "cross_entropy is cut along classes only";
    return std::nullopt;
  }
  OpCut all = wholeCut(*this);
  all.operands[0] = cut;
  all.reducedBytes = 3.0 * double(bytesOf(tensorOf(getLse())));
  all.bearsPadding = true;
  return all;
}

namespace {

/// A cross-entropy whose classes are cut.
struct LossOfParts {
  LossOfParts(OpBuilder &builder, CrossEntropyOp op, Value logits, Value labels)
      : on(builder, op.getLoc()), op(op), logits(logits), labels(labels) {
    ArrayRef<int64_t> whole = shapeOf(op.getLogits());
    rows = whole[0];
    classes = whole[1];
    own = shapeOf(logits)[1];
    Type wide = elementOf(op.getLse());
    if (elementOf(logits) != wide)
      this->logits = on.make<CastOp>(logits, TypeAttr::get(wide));
    first = rankOffset(on, labels, own);
  }

  Value sum(Value part) { return on.make<AllReduceOp>(part, /*max=*/false); }

  /// Logits beyond the last class count for nothing.
  void dropPadding(int64_t ranks) {
    if (own * ranks == classes)
      return;
    auto number = [&](double value) { return FloatAttr::get(Float64Type::get(op.getContext()), value); };
    Type type = RankedTensorType::get({own}, elementOf(labels));
    Value column = on.add(on.make<IotaOp>(TypeAttr::get(type), number(0), number(1)), first);
    Value isClass = on.less(column, on.scalar(double(classes), column));
    logits = on.select(isClass, logits, on.scalar(-std::numeric_limits<double>::infinity(), logits));
  }

  /// Of each row, [rows, 1]. What exponents are shifted by changes nothing but their range.
  Value logSumExp() {
    Value largest = on.make<ReduceMaxOp>(logits, ArrayRef<int64_t>(1), /*keepdims=*/true);
    largest = on.make<AllReduceOp>(largest, /*max=*/true);
    Value sums = on.reduceSum(on.make<ExpOp>(on.sub(logits, largest)), {1}, /*keepdims=*/true);
    return on.add(on.make<LogOp>(sum(sums)), largest);
  }

  /// The logit of each row's label, [rows, 1]: of the one rank that has it.
  Value ofLabels() {
    Value label = on.make<LabelIndexOp>(labels, uint64_t(classes), op.getIgnoreIndex());
    Value inside, place = placeInPart(on, on.sub(label, first), own, inside);
    Value column = on.reshape(place, {rows, 1});
    Value picked = on.make<GatherElementsOp>(logits, column, uint64_t(1));
    return sum(on.select(on.reshape(inside, {rows, 1}), picked, on.scalar(0, picked)));
  }

  /// A number that labels of their type cannot be is none of them ("nothing is ignored" is such a one).
  Value isIgnored(Value column) {
    auto number = int64_t(op.getIgnoreIndex());
    unsigned bits = elementOf(column).getIntOrFloatBitWidth();
    if (bits < 64 && (number < -(int64_t(1) << (bits - 1)) || number >= int64_t(1) << (bits - 1)))
      return on.less(column, column);
    return on.make<EqualOp>(column, on.scalar(double(number), column));
  }

  SmallVector<Value> build() {
    Value lse = logSumExp();
    Value column = on.reshape(labels, {rows, 1});
    Value ignored = isIgnored(column);
    Value losses = on.select(ignored, on.scalar(0, lse), on.sub(lse, ofLabels()));
    Value loss = on.reduceSum(losses, {0, 1}, /*keepdims=*/false);
    if (!op.getSum()) {
      Value counts = on.make<CastOp>(on.make<NotOp>(ignored), TypeAttr::get(elementOf(lse)));
      loss = on.div(loss, on.reduceSum(counts, {0, 1}, /*keepdims=*/false));
    }
    return {loss, on.reshape(lse, {rows})};
  }

  TensorBuilder on;
  CrossEntropyOp op;
  Value logits, labels, first; ///< `first`: this rank's first class
  int64_t rows, classes, own;
};

} // namespace

ZC_PARTS(CrossEntropyOp) {
  LossOfParts parts(builder, *this, operands[0], operands[1]);
  parts.dropPadding(ranks);
  return parts.build();
}
