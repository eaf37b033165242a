//===- ShardingTensor.cpp - moving, picking and reducing in parts -------------------------===//
#include "dialects/graph/Sharding.h"

#include <limits>

using namespace mlir;
using namespace zc::graph;

static NamedAttribute shapeAttribute(OpBuilder &builder, StringRef name, ArrayRef<int64_t> shape) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(shape));
}

/// The shape of result 0 on parts.
static Shape resultPart(Operation *op, const OpCut &cut, int64_t ranks) {
  auto whole = cast<RankedTensorType>(op->getResult(0).getType());
  return Shape((cut.results[0] ? partType(whole, *cut.results[0], ranks) : whole).getShape());
}

//===-- reshape --------------------------------------------------------------===//

static int64_t product(ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// Row-major, a cut tensor is [outer, ranks, rest]: another shape is cut so along the one dimension that begins at or
/// before `outer` and ends behind the ranks.
static std::optional<TensorCut> reshapeCut(ArrayRef<int64_t> from, TensorCut cut, ArrayRef<int64_t> to, int64_t ranks) {
  int64_t before = product(from.take_front(cut.dim));
  if (!dividesEvenly(from, cut, ranks)) { // ragged: only as a dimension of its own
    for (size_t dim = 0; dim < to.size(); ++dim)
      if (cut.groups == 1 && to[dim] == from[cut.dim] && product(to.take_front(dim)) == before)
        return TensorCut{int64_t(dim), 1};
    return std::nullopt;
  }
  int64_t outer = before * cut.groups, prefix = 1;
  for (size_t dim = 0; dim < to.size(); prefix *= to[dim++])
    if (to[dim] > 1 && prefix <= outer && outer * ranks <= prefix * to[dim]) {
      TensorCut result{int64_t(dim), outer / prefix};
      if (outer % prefix == 0 && dividesEvenly(to, result, ranks))
        return result;
    }
  return std::nullopt;
}

ZC_CUT(ReshapeOp) {
  OpCut all = wholeCut(*this);
  ArrayRef<int64_t> input = shapeOf(getInput()), result = shapeOf(getResult());
  ArrayRef<int64_t> from = index == 0 ? input : result, to = index == 0 ? result : input;
  std::optional<TensorCut> other = reshapeCut(from, cut, to, ranks);
  if (!other) {
    why = std::to_string(ranks) + " ranks do not divide what a reshape of " + toText(from) + " to " + toText(to) +
          " makes of dimension " + std::to_string(cut.dim);
    return std::nullopt;
  }
  all.operands[0] = index == 0 ? cut : *other;
  all.results[0] = index == 0 ? *other : cut;
  all.bearsPadding = true;
  return all;
}

ZC_PARTS(ReshapeOp) {
  return buildOnParts(builder, *this, cut, operands, ranks,
                      shapeAttribute(builder, getShapeAttrName(), resultPart(*this, cut, ranks)));
}

//===-- transpose, expand, pad -----------------------------------------------===//

ZC_CUT(TransposeOp) {
  std::string letters = lettersOf(getInput()), result;
  for (int64_t dim : getPermutation())
    result.push_back(letters[dim]);
  return cutByFactors(*this, {{letters, result}}, index, cut, ranks, why);
}

ZC_CUT(ExpandOp) {
  std::string letters = lettersOf(getResult());
  return cutByFactors(*this, {{broadcastLetters(getInput(), letters), letters}}, index, cut, ranks, why);
}

ZC_PARTS(ExpandOp) {
  return buildOnParts(builder, *this, cut, operands, ranks,
                      shapeAttribute(builder, getShapeAttrName(), resultPart(*this, cut, ranks)));
}

ZC_CUT(PadOp) {
  std::string letters = lettersOf(getInput());
  for (size_t dim = 0; dim < letters.size(); ++dim)
    if (getLow()[dim] != 0 || getHigh()[dim] != 0)
      letters[dim] = '.';
  return cutByFactors(*this, {{letters, letters}}, index, cut, ranks, why);
}

//===-- slice, concat: along the dimension itself in whole groups -----------------===//

/// Dimension `dim` of a tensor of this shape in runs of `run`, or nothing.
static std::optional<TensorCut> inRuns(ArrayRef<int64_t> shape, int64_t dim, int64_t run, int64_t ranks) {
  if (run <= 0 || shape[dim] % run != 0 || shape[dim] == 0)
    return std::nullopt;
  TensorCut cut{dim, shape[dim] / run};
  return dividesEvenly(shape, cut, ranks) ? std::optional(cut) : std::nullopt;
}

ZC_CUT(SliceOp) {
  ArrayRef<int64_t> input = shapeOf(getInput()), result = shapeOf(getResult());
  int64_t dim = cut.dim, offset = getOffsets()[dim];
  bool isWhole = getStrides()[dim] == 1 && input[dim] == result[dim];
  OpCut all = wholeCut(*this);
  all.bearsPadding = true;
  all.operands[0] = all.results[0] = cut;
  if (isWhole)
    return all;
  int64_t run = (index == 0 ? input : result)[dim] / cut.groups;
  std::optional<TensorCut> other = inRuns(index == 0 ? result : input, dim, run, ranks);
  if (getStrides()[dim] != 1 || !other || offset % run != 0) {
    why = "a slice of " + toText(result) + " from " + toText(input) + " is not made of whole groups of dimension " +
          std::to_string(dim);
    return std::nullopt;
  }
  (index == 0 ? all.results[0] : all.operands[0]) = other;
  return all;
}

ZC_PARTS(SliceOp) {
  Shape offsets(getOffsets());
  offsets[cut.results[0]->dim] /= ranks;
  return buildOnParts(builder, *this, cut, operands, ranks,
                      {shapeAttribute(builder, getOffsetsAttrName(), offsets),
                       shapeAttribute(builder, getSizesAttrName(), resultPart(*this, cut, ranks))});
}

ZC_CUT(ConcatOp) {
  int64_t axis = getAxis();
  if (cut.dim != axis) {
    std::string letters = lettersOf(getResult());
    return cutByFactors(*this, {SmallVector<std::string>((*this)->getNumOperands() + 1, letters)}, index, cut, ranks,
                        why);
  }
  OpCut all = wholeCut(*this);
  int64_t run = shapeOf(tensorAt(*this, index))[axis] / cut.groups;
  for (unsigned i = 0; i <= (*this)->getNumOperands(); ++i) {
    std::optional<TensorCut> own = inRuns(shapeOf(tensorAt(*this, i)), axis, run, ranks);
    if (!own) {
      why = "what is joined to " + toText(shapeOf(getResult())) + " is not made of whole groups of dimension " +
            std::to_string(axis);
      return std::nullopt;
    }
    (i < (*this)->getNumOperands() ? all.operands[i] : all.results[0]) = own;
  }
  return all;
}

//===-- gathers --------------------------------------------------------------===//

ZC_CUT(GatherOp) {
  int64_t axis = getAxis();
  if (index == 0 && cut.dim == axis && cut.groups == 1 && isa<FloatType>(elementOf(getData()))) {
    OpCut all = wholeCut(*this); // each rank picks what it has, the others' are zeros
    all.operands[0] = cut;
    all.reducedBytes = double(bytesOf(tensorOf(getResult())));
    all.bearsPadding = true;
    return all;
  }
  std::string data = lettersOf(getData()), indices = lettersOf(getIndices(), 'A');
  std::string result = data.substr(0, axis) + indices + data.substr(axis + 1);
  data[axis] = '.';
  return cutByFactors(*this, {{data, indices, result}}, index, cut, ranks, why);
}

/// Positions in the rank's own rows, of `all`; of others 0, and `inside` says which are its own. The padding becomes
/// the negative position of its row, at which nothing else arrives, so that it can be told from the same row of another
/// rank.
static Value ownPositions(TensorBuilder &on, Value indices, int64_t all, int64_t rows, std::optional<int64_t> padding,
                          Value &inside) {
  Value zero = on.scalar(0, indices);
  Value fromEnd = on.add(indices, on.scalar(double(all), indices));
  Value position = on.select(on.less(indices, zero), fromEnd, indices);
  // Outside the table is an error, as it is of gather.
  position = on.make<LabelIndexOp>(position, uint64_t(all), uint64_t(std::numeric_limits<int64_t>::min()));
  Value own = placeInPart(on, on.sub(position, rankOffset(on, indices, rows)), rows, inside);
  if (!padding)
    return own;
  Value isPadding = on.make<AndOp>(inside, on.make<EqualOp>(position, on.scalar(double(*padding), position)));
  return on.select(isPadding, on.scalar(double(*padding % rows - rows), own), own);
}

ZC_PARTS(GatherOp) {
  int64_t axis = getAxis();
  if (!cut.operands[0] || cut.operands[0]->dim != axis)
    return buildSameOnParts(builder, *this, cut, operands, ranks);
  TensorBuilder on(builder, getLoc());
  int64_t rows = shapeOf(operands[0])[axis];
  std::optional<int64_t> padding = getPaddingIndex();
  Value inside, own = ownPositions(on, operands[1], shapeOf(getData())[axis], rows, padding, inside);
  IntegerAttr ownPadding = padding ? builder.getI64IntegerAttr(*padding % rows - rows) : IntegerAttr();
  Value picked = on.make<GatherOp>(operands[0], own, builder.getI64IntegerAttr(axis), ownPadding);
  Shape mask(shapeOf(getIndices()));
  mask.insert(mask.begin(), axis, 1);
  mask.resize(tensorOf(picked).getRank(), 1);
  picked = on.select(on.reshape(inside, mask), picked, on.scalar(0, picked));
  return {on.make<AllReduceOp>(picked, /*max=*/false)};
}

ZC_CUT(GatherElementsOp) {
  std::string letters = lettersOf(getData());
  ArrayRef<int64_t> data = shapeOf(getData()), indices = shapeOf(getIndices());
  for (size_t dim = 0; dim < letters.size(); ++dim)
    if (dim == getAxis() || data[dim] != indices[dim])
      letters[dim] = '.';
  return cutByFactors(*this, {{letters, letters, letters}}, index, cut, ranks, why);
}

//===-- reductions and cumulations -------------------------------------------------===//

/// `sums`: over what is cut the ranks' results are added; else that has to be whole.
static std::optional<OpCut> cutReduction(Operation *op, ArrayRef<int64_t> axes, bool keeps, bool sums, unsigned index,
                                         TensorCut cut, int64_t ranks, std::string &why) {
  Value input = op->getOperand(0);
  std::string letters = lettersOf(input), result;
  bool canSum = sums && isa<FloatType>(elementOf(input));
  Factors factors;
  factors.bearsPadding = false;
  for (size_t dim = 0; dim < letters.size(); ++dim) {
    bool isReduced = llvm::is_contained(axes, int64_t(dim));
    if (!isReduced)
      result.push_back(letters[dim]);
    else if (keeps)
      result.push_back('.');
    if (isReduced && canSum)
      factors.summed.push_back(letters[dim]);
    else if (isReduced)
      letters[dim] = '.';
  }
  factors.tensors = {letters, result};
  return cutByFactors(op, factors, index, cut, ranks, why);
}

ZC_CUT(ReduceSumOp) { return cutReduction(*this, getAxes(), getKeepdims(), true, index, cut, ranks, why); }
ZC_CUT(ReduceMeanOp) {
  // A ragged part has another mean.
  bool sums = dividesEvenly(shapeOf(tensorAt(*this, index)), cut, ranks);
  return cutReduction(*this, getAxes(), getKeepdims(), sums, index, cut, ranks, why);
}
ZC_CUT(ReduceMaxOp) { return cutReduction(*this, getAxes(), getKeepdims(), false, index, cut, ranks, why); }
ZC_CUT(ReduceMinOp) { return cutReduction(*this, getAxes(), getKeepdims(), false, index, cut, ranks, why); }
ZC_CUT(ReduceProdOp) { return cutReduction(*this, getAxes(), getKeepdims(), false, index, cut, ranks, why); }

ZC_PARTS(ReduceSumOp) {
  SmallVector<Value> results = buildSameOnParts(builder, *this, cut, operands, ranks);
  if (!cut.results[0])
    results[0] = TensorBuilder(builder, getLoc()).make<AllReduceOp>(results[0], /*max=*/false);
  return results;
}
ZC_PARTS(ReduceMeanOp) {
  SmallVector<Value> results = buildSameOnParts(builder, *this, cut, operands, ranks);
  if (!cut.results[0]) {
    TensorBuilder on(builder, getLoc());
    results[0] = on.make<AllReduceOp>(on.scale(results[0], 1.0 / double(ranks)), /*max=*/false);
  }
  return results;
}
ZC_PARTS(ReduceMaxOp) { return buildSameOnParts(builder, *this, cut, operands, ranks); }
ZC_PARTS(ReduceMinOp) { return buildSameOnParts(builder, *this, cut, operands, ranks); }
ZC_PARTS(ReduceProdOp) { return buildSameOnParts(builder, *this, cut, operands, ranks); }

/// Along any dimension but `axis`.
static std::optional<OpCut> cutBesides(Operation *op, int64_t axis, unsigned index, TensorCut cut, int64_t ranks,
                                       std::string &why) {
  std::string letters = lettersOf(op->getOperand(0));
  letters[axis] = '.';
  return cutByFactors(op, {{letters, letters}}, index, cut, ranks, why);
}
ZC_CUT(CumSumOp) { return cutBesides(*this, getAxis(), index, cut, ranks, why); }
ZC_CUT(CumProdOp) { return cutBesides(*this, getAxis(), index, cut, ranks, why); }
ZC_CUT(SoftmaxOp) { return cutBesides(*this, getAxis(), index, cut, ranks, why); }
ZC_CUT(LogSoftmaxOp) { return cutBesides(*this, getAxis(), index, cut, ranks, why); }
