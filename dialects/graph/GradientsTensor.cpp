//===- GradientsTensor.cpp - derivatives of moving and reducing ops -----------===//
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

ZC_GRADIENT(ReshapeOp) {
  operandGrads[0] = GradientBuilder(builder, *this).reshape(resultGrads[0], shapeOf(getInput()));
  return success();
}

ZC_GRADIENT(TransposeOp) {
  Shape inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  operandGrads[0] = GradientBuilder(builder, *this).make<TransposeOp>(resultGrads[0], inverse);
  return success();
}

ZC_GRADIENT(ExpandOp) {
  operandGrads[0] = GradientBuilder(builder, *this).unbroadcast(resultGrads[0], getInput());
  return success();
}

/// Does the slice take every element once, forwards or backwards? It is its own inverse then.
static bool isReversal(SliceOp op) {
  return shapeOf(op.getInput()) == shapeOf(op.getResult()) &&
         llvm::all_of(op.getStrides(), [](int64_t stride) { return stride == 1 || stride == -1; });
}

ZC_GRADIENT(SliceOp) {
  GradientBuilder on(builder, *this);
  if (isReversal(*this)) {
    operandGrads[0] = on.make<SliceOp>(resultGrads[0], getOffsets(), getSizes(), getStrides());
    return success();
  }
  operandGrads[0] = on.make<SliceGradOp>(resultGrads[0], shapeOf(getInput()), getOffsets(), getStrides());
  return success();
}

ZC_GRADIENT(ConcatOp) {
  GradientBuilder on(builder, *this);
  int64_t axis = getAxis(), offset = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> shape = shapeOf(input);
    Shape offsets(shape.size(), 0), strides(shape.size(), 1);
    offsets[axis] = offset;
    offset += shape[axis];
    if (wanted[i])
      operandGrads[i] = on.make<SliceOp>(resultGrads[0], offsets, shape, strides);
  }
  return success();
}

ZC_GRADIENT(PadOp) {
  // What was added is cropped, what was cropped gets zeros.
  auto negate = [](ArrayRef<int64_t> amounts) { return llvm::map_to_vector(amounts, std::negate<int64_t>()); };
  GradientBuilder on(builder, *this);
  operandGrads[0] = on.make<PadOp>(resultGrads[0], negate(getLow()), negate(getHigh()), APFloat(0.0));
  return success();
}

//===-- gathers --------------------------------------------------------------===//

/// What arrives at the places where `indices` are `padding`, also counted from the end of the `rows`, becomes zero.
static Value withoutPadding(GradientBuilder &on, Value g, Value indices, int64_t axis, int64_t padding, int64_t rows) {
  auto is = [&](int64_t index) -> Value { return on.make<EqualOp>(indices, on.scalar(double(index), indices)); };
  Value isPadding = is(padding);
  if (padding >= 0) // a negative one is the position of a rank's own rows, by which it alone is meant
    isPadding = on.make<OrOp>(isPadding, is(padding - rows));
  Shape shape(shapeOf(indices));
  shape.resize(tensorOf(g).getRank() - axis, 1); // the indices' dimensions stand at `axis` of the gradient's
  return on.select(on.reshape(isPadding, shape), on.scalar(0, g), g);
}

ZC_GRADIENT(GatherOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0];
  if (std::optional<uint64_t> padding = getPaddingIndex())
    g = withoutPadding(on, g, getIndices(), getAxis(), static_cast<int64_t>(*padding), shapeOf(getData())[getAxis()]);
  operandGrads[0] = on.make<GatherGradOp>(g, getIndices(), /*onto=*/Value(), shapeOf(getData()), getAxis());
  return success();
}

ZC_GRADIENT(GatherElementsOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = on.make<GatherElementsGradOp>(resultGrads[0], getIndices(), shapeOf(getData()), getAxis());
  return success();
}

ZC_GRADIENT(GatherNdOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = on.make<GatherNdGradOp>(resultGrads[0], getIndices(), shapeOf(getData()), getBatchDims());
  return success();
}

//===-- reductions -----------------------------------------------------------===//

/// A reduction's operand shape with 1 for the reduced dimensions.
static Shape keptShape(Value input, ArrayRef<int64_t> axes) {
  Shape shape(shapeOf(input));
  for (int64_t axis : axes)
    shape[axis] = 1;
  return shape;
}

ZC_GRADIENT(ReduceSumOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = on.expand(on.reshape(resultGrads[0], keptShape(getInput(), getAxes())), shapeOf(getInput()));
  return success();
}

ZC_GRADIENT(ReduceMeanOp) {
  GradientBuilder on(builder, *this);
  double count = 1;
  for (int64_t axis : getAxes())
    count *= double(shapeOf(getInput())[axis]);
  // Scaled while it is small. The mean of nothing has an empty gradient.
  Value share = on.scale(resultGrads[0], count == 0 ? 0 : 1 / count);
  operandGrads[0] = on.expand(on.reshape(share, keptShape(getInput(), getAxes())), shapeOf(getInput()));
  return success();
}

/// Shared evenly between all elements that equal the extremum.
static Value extremumGradient(GradientBuilder &on, Value g, Value x, Value result, ArrayRef<int64_t> axes) {
  Shape kept = keptShape(x, axes);
  Value isExtreme = on.make<EqualOp>(x, on.reshape(result, kept));
  Value ones = on.make<CastOp>(isExtreme, TypeAttr::get(elementOf(x)));
  Value share = on.div(on.reshape(g, kept), on.reduceSum(ones, axes, /*keepdims=*/true));
  return on.mul(ones, share);
}

ZC_GRADIENT(ReduceMaxOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = extremumGradient(on, resultGrads[0], getInput(), getResult(), getAxes());
  return success();
}
ZC_GRADIENT(ReduceMinOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = extremumGradient(on, resultGrads[0], getInput(), getResult(), getAxes());
  return success();
}

/// The product of all other elements: of those before times those behind, which holds at zeros too. The reduced
/// dimensions are brought behind the others as one.
ZC_GRADIENT(ReduceProdOp) {
  GradientBuilder on(builder, *this);
  Value x = getInput();
  ArrayRef<int64_t> dims = shapeOf(x);
  if (getAxes().empty()) {
    operandGrads[0] = resultGrads[0];
    return success();
  }
  Shape permutation, inverse(dims.size()), moved;
  int64_t rows = 1, columns = 1;
  for (int64_t d = 0; d < int64_t(dims.size()); ++d)
    if (!llvm::is_contained(getAxes(), d)) {
      permutation.push_back(d);
      rows *= dims[d];
    }
  for (int64_t d : getAxes()) {
    permutation.push_back(d);
    columns *= dims[d];
  }
  for (auto [i, d] : llvm::enumerate(permutation)) {
    inverse[d] = i;
    moved.push_back(dims[d]);
  }
  Value flat = on.reshape(on.make<TransposeOp>(x, permutation), {rows, columns});
  Value before = on.make<CumProdOp>(flat, uint64_t(1), /*exclusive=*/true, /*reverse=*/false);
  Value behind = on.make<CumProdOp>(flat, uint64_t(1), /*exclusive=*/true, /*reverse=*/true);
  Value others = on.make<TransposeOp>(on.reshape(on.mul(before, behind), moved), inverse);
  operandGrads[0] = on.mul(on.reshape(resultGrads[0], keptShape(x, getAxes())), others);
  return success();
}

ZC_GRADIENT(CumSumOp) {
  operandGrads[0] =
      GradientBuilder(builder, *this).make<CumSumOp>(resultGrads[0], getAxis(), getExclusive(), !getReverse());
  return success();
}

/// dx[k] = (product before k) * sum over i >= k of g[i] * (product of those behind k, up to i): the sums are taken over
/// a square of all pairs k, i, so that zeros among x need no division. Exclusive and reversed products are brought to
/// the plain form, and the axis to the end.
ZC_GRADIENT(CumProdOp) {
  GradientBuilder on(builder, *this);
  int64_t rank = tensorOf(getInput()).getRank(), axis = getAxis();
  ArrayRef<int64_t> dims = shapeOf(getInput());
  int64_t n = dims[axis];
  Shape swapped = llvm::to_vector(llvm::seq<int64_t>(0, rank)), moved(dims);
  std::swap(swapped[axis], swapped[rank - 1]);
  std::swap(moved[axis], moved[rank - 1]);
  auto flipped = [&](Value value) { // along the last axis
    if (!getReverse() || n == 0)
      return value;
    Shape offsets(rank, 0), strides(rank, 1);
    offsets[rank - 1] = n - 1;
    strides[rank - 1] = -1;
    return on.make<SliceOp>(value, offsets, moved, strides);
  };
  Value x = flipped(on.make<TransposeOp>(getInput(), swapped)),
        g = flipped(on.make<TransposeOp>(resultGrads[0], swapped));
  if (getExclusive()) { // result i + 1 is the plain product up to i
    Shape low(rank, 0), high(rank, 0);
    low[rank - 1] = -1;
    high[rank - 1] = 1;
    if (n > 0)
      g = on.make<PadOp>(g, low, high, APFloat(0.0));
  }
  Shape square(moved), row(moved);
  square.insert(square.end() - 1, n); // [.., k, i]
  row.insert(row.end() - 1, 1);
  auto iota = [&](ArrayRef<int64_t> shape) {
    auto number = [&](double value) { return FloatAttr::get(Float64Type::get(getContext()), value); };
    Type type = RankedTensorType::get({n}, IntegerType::get(getContext(), 64));
    return on.reshape(on.make<IotaOp>(TypeAttr::get(type), number(0), number(1)), shape);
  };
  Value k = iota({n, 1}), i = iota({n}), one = on.scalar(1, x), zero = on.scalar(0, x);
  Value factors = on.select(on.less(k, i), on.expand(on.reshape(x, row), square), one);
  Value behind = on.make<CumProdOp>(factors, uint64_t(rank), /*exclusive=*/false, /*reverse=*/false);
  Value terms = on.select(on.less(i, k), zero, on.mul(behind, on.reshape(g, row)));
  Value before = on.make<CumProdOp>(x, uint64_t(rank - 1), /*exclusive=*/true, /*reverse=*/false);
  Value grad = on.mul(before, on.reduceSum(terms, {rank}, /*keepdims=*/false));
  operandGrads[0] = on.make<TransposeOp>(flipped(grad), swapped);
  return success();
}

//===-- scatters and order -----------------------------------------------------===//

namespace {

/// A scatter's parts, apart from how it names its places.
struct Scatter {
  Value data, updates, result, grad;
  zc::ScatterReduction reduction;
  llvm::function_ref<Value(Value)> pick;       ///< the elements of a tensor like `data` that updates go to
  llvm::function_ref<Value(Value, Value)> put; ///< updates replaced in a tensor
  llvm::function_ref<Value(Value)> add;        ///< updates added up in zeros like `data`

  /// min, max: shared evenly between all that equal the result, as torch's scatter_reduce does.
  void extremum(GradientBuilder &on, MutableArrayRef<Value> grads) const {
    auto ones = [&](Value isEqual) { return on.make<CastOp>(isEqual, TypeAttr::get(elementOf(data))); };
    Value fromData = ones(on.make<EqualOp>(data, result));
    Value fromUpdates = ones(on.make<EqualOp>(updates, pick(result)));
    Value share = on.div(grad, on.add(fromData, add(fromUpdates)));
    grads[0] = on.mul(fromData, share);
    grads[2] = on.mul(fromUpdates, pick(share));
  }

  /// mul: what the others at its place make of an update. The only one there that is 0 has it from a product without
  /// it.
  Value factor(GradientBuilder &on) const {
    auto all = [&](double x) { return on.expand(on.scalar(x, updates), shapeOf(updates)); };
    Value isZero = on.make<EqualOp>(updates, all(0)), divisor = on.make<SelectOp>(isZero, all(1), updates);
    Value zeros = pick(add(on.make<CastOp>(isZero, TypeAttr::get(elementOf(data)))));
    Value quotient = on.div(pick(on.mul(grad, result)), divisor), others = pick(on.mul(grad, put(data, divisor)));
    Value isAlone = on.make<AndOp>(isZero, on.make<EqualOp>(zeros, all(1)));
    return on.make<SelectOp>(isAlone, others, quotient);
  }

  void build(GradientBuilder &on, ArrayRef<bool> wanted, MutableArrayRef<Value> grads) const {
    if (reduction == zc::ScatterReduction::min || reduction == zc::ScatterReduction::max)
      return extremum(on, grads);
    if (wanted[0] && reduction == zc::ScatterReduction::add)
      grads[0] = grad;
    else if (wanted[0])
      grads[0] = put(grad, reduction == zc::ScatterReduction::mul ? updates
                                                                  : on.expand(on.scalar(0, updates), shapeOf(updates)));
    if (wanted[2] && reduction == zc::ScatterReduction::mul)
      grads[2] = factor(on);
    else if (wanted[2])
      grads[2] = pick(grad);
  }
};

/// Of the scatter that a gradient puts with.
zc::ScatterReduction reductionOfPut(zc::ScatterReduction reduction) {
  return reduction == zc::ScatterReduction::mul ? zc::ScatterReduction::mul : zc::ScatterReduction::none;
}

} // namespace

ZC_GRADIENT(ScatterElementsOp) {
  GradientBuilder on(builder, *this);
  uint64_t axis = getAxis();
  const zc::ScatterReduction onto = reductionOfPut(getReduction());
  Scatter{getData(),
          getUpdates(),
          getResult(),
          resultGrads[0],
          getReduction(),
          [&](Value x) { return on.make<GatherElementsOp>(x, getIndices(), axis); },
          [&](Value x, Value updates) { return on.make<ScatterElementsOp>(x, getIndices(), updates, axis, onto); },
          [&](Value updates) { return on.make<GatherElementsGradOp>(updates, getIndices(), shapeOf(getData()), axis); }}
      .build(on, wanted, operandGrads);
  return success();
}

ZC_GRADIENT(ScatterNdOp) {
  GradientBuilder on(builder, *this);
  const zc::ScatterReduction onto = reductionOfPut(getReduction());
  Scatter{
      getData(),
      getUpdates(),
      getResult(),
      resultGrads[0],
      getReduction(),
      [&](Value x) { return on.make<GatherNdOp>(x, getIndices(), uint64_t(0)); },
      [&](Value x, Value updates) { return on.make<ScatterNdOp>(x, getIndices(), updates, onto); },
      [&](Value updates) { return on.make<GatherNdGradOp>(updates, getIndices(), shapeOf(getData()), uint64_t(0)); }}
      .build(on, wanted, operandGrads);
  return success();
}

ZC_GRADIENT(TopKOp) {
  if (resultGrads[0])
    operandGrads[0] = GradientBuilder(builder, *this)
                          .make<GatherElementsGradOp>(resultGrads[0], getIndices(), shapeOf(getInput()), getAxis());
  return success();
}
