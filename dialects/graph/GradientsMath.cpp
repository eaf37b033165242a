//===- GradientsMath.cpp - derivatives of products, softmaxes, norms, loss ----===//
#include "dialects/graph/Gradient.h"
#include <limits>

using namespace mlir;
using namespace zc::graph;

//===-- matmul ---------------------------------------------------------------===//

/// [batch.., m, k] as [batch * m, k].
static Value flattenRows(GradientBuilder &on, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rows = 1;
  for (int64_t dim : shape.drop_back())
    rows *= dim;
  return on.reshape(value, {rows, shape.back()});
}

/// Gradients of op(lhs) op(rhs) by transpose flags alone, with the leading dimensions of the result.
static void buildProducts(GradientBuilder &on, Value g, Value lhs, Value rhs, bool transLhs, bool transRhs,
                          ArrayRef<bool> wanted, MutableArrayRef<Value> grads) {
  if (wanted[0])
    grads[0] = transLhs ? on.make<MatmulOp>(rhs, g, Value(), transRhs, true)
                        : on.make<MatmulOp>(g, rhs, Value(), false, !transRhs);
  if (wanted[1])
    grads[1] = transRhs ? on.make<MatmulOp>(g, lhs, Value(), true, transLhs)
                        : on.make<MatmulOp>(lhs, g, Value(), !transLhs, false);
}

/// Whether the gradients with the leading dimensions of the result, before those are summed, are tensors at all.
static bool productsFit(ArrayRef<int64_t> result, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  auto fits = [&](ArrayRef<int64_t> matrix) {
    double elements = 1;
    for (int64_t dim : llvm::concat<const int64_t>(result.drop_back(2), matrix.take_back(2)))
      elements *= double(dim);
    return elements < 0x1p48;
  };
  return fits(lhs) && fits(rhs);
}

ZC_GRADIENT(MatmulOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0], lhs = getLhs(), rhs = getRhs();
  if (!productsFit(shapeOf(getResult()), shapeOf(lhs), shapeOf(rhs)))
    return emitOpError("has a gradient of 2^48 elements or more before it is summed over the broadcast dimensions");
  // A linear layer: all rows of the batch in one product each, instead of a batch of products and their sum.
  if (shapeOf(rhs).size() == 2 && !getTransLhs()) {
    g = flattenRows(on, g);
    lhs = flattenRows(on, lhs);
  }
  buildProducts(on, g, lhs, rhs, getTransLhs(), getTransRhs(), wanted, operandGrads);
  for (auto [grad, operand] : llvm::zip(operandGrads.take_front(2), getOperands()))
    if (grad)
      grad = shapeOf(grad).size() < shapeOf(operand).size() ? on.reshape(grad, shapeOf(operand))
                                                            : on.unbroadcast(grad, operand);
  if (getBias() && wanted[2])
    operandGrads[2] = on.unbroadcast(g, getBias());
  return success();
}

//===-- softmax --------------------------------------------------------------===//

ZC_GRADIENT(SoftmaxOp) {
  // A fully masked row under zero_masked has y = 0, hence gradient 0.
  operandGrads[0] = GradientBuilder(builder, *this).make<SoftmaxGradOp>(resultGrads[0], getResult(), getAxis());
  return success();
}

ZC_GRADIENT(LogSoftmaxOp) {
  GradientBuilder on(builder, *this);
  Value grad = on.make<LogSoftmaxGradOp>(resultGrads[0], getResult(), getAxis());
  if (getZeroMasked()) {
    Value largest = on.make<ReduceMaxOp>(getInput(), ArrayRef<int64_t>(getAxis()), /*keepdims=*/true);
    Value masked = on.make<EqualOp>(largest, on.scalar(-std::numeric_limits<double>::infinity(), largest));
    grad = on.select(masked, on.scalar(0, grad), grad);
  }
  operandGrads[0] = grad;
  return success();
}

//===-- norms ----------------------------------------------------------------===//

ZC_GRADIENT(LayerNormOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  auto grad = GradientBuilder(builder, *this)
                  .create<LayerNormGradOp>(resultGrads[0], getInput(), getScale(), getMean(), getInvStd(), getAxis());
  llvm::copy(grad->getResults().take_front(getNumOperands()), operandGrads.begin());
  return success();
}

ZC_GRADIENT(RmsNormOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  auto grad = GradientBuilder(builder, *this)
                  .create<RmsNormGradOp>(resultGrads[0], getInput(), getScale(), getInvRms(), getAxis());
  llvm::copy(grad->getResults(), operandGrads.begin());
  return success();
}

//===-- attention ------------------------------------------------------------===//

/// Gradient of an additive mask that is trained and broadcast along queries or keys: P (g V^T - rowsum g y), summed
/// over what was broadcast. The scores are built whole, which attention itself never does.
static Value buildMaskGradient(GradientBuilder &on, AttentionOp op, Value g) {
  Value lse = op.getLse(), query = op.getQuery();
  ArrayRef<int64_t> q = shapeOf(query);
  int64_t heads = q[1], queries = q[2];
  Type element = elementOf(lse);
  auto wide = [&](Value value) { return elementOf(value) == element ? value : on.make<CastOp>(value, element); };
  auto product = [&](Value lhs, Value rhs) {
    return on.make<MatmulOp>(wide(lhs), wide(repeatHeads(on, rhs, heads)), Value(), false, /*transRhs=*/true);
  };
  Value scores = on.add(scaledScores(on, op, product(query, op.getKey())), wide(op.getMask()));
  Value rows = on.reshape(lse, {q[0], heads, queries, 1});
  Value unseeing = on.make<EqualOp>(rows, on.scalar(-std::numeric_limits<double>::infinity(), lse));
  Value p = on.make<ExpOp>(on.sub(scores, on.select(unseeing, on.scalar(0, lse), rows)));
  p = on.select(unseeing, on.scalar(0, lse), p);
  if (Value hidden = keysOutOfPlace(on, op))
    p = on.select(hidden, on.scalar(0, lse), p);
  Value inner = on.reduceSum(on.mul(wide(g), wide(op.getResult())), {3}, /*keepdims=*/true);
  Value slopes = product(g, op.getValue());
  if (op.getDropout())
    slopes =
        on.make<DropoutOp>(slopes, op.getDropoutAttr(), op.getDropoutIdAttr(), op.getRunAttr(), op.getStrideAttr());
  Value grad = on.unbroadcast(on.mul(p, on.sub(slopes, inner)), op.getMask());
  Type wanted = elementOf(op.getMask());
  return wanted == element ? grad : on.make<CastOp>(grad, wanted);
}

ZC_GRADIENT(AttentionOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  GradientBuilder on(builder, *this);
  const bool isMaskWanted = getMask() && wanted[3] && isa<FloatType>(elementOf(getMask()));
  // T5's table of relative positions has an element for each query and key.
  const bool isMaskJoined = isMaskWanted && AttentionGradOp::hasMaskGradient(
                                                tensorOf(getMask()), {shapeOf(getQuery())[2], shapeOf(getKey())[2]});
  if (isMaskWanted && !isMaskJoined)
    operandGrads[3] = buildMaskGradient(on, *this, resultGrads[0]);
  if (!wanted[0] && !wanted[1] && !wanted[2] && !isMaskJoined)
    return success();
  auto grad = on.create<AttentionGradOp>(resultGrads[0], getQuery(), getKey(), getValue(), getResult(), getLse(),
                                         getMask(), getScaleAttr(), getCausalAttr(), getWindowAttr(), getSoftcapAttr(),
                                         getDropoutAttr(), getDropoutIdAttr(), getRunAttr(), getStrideAttr(),
                                         isMaskJoined ? builder.getUnitAttr() : UnitAttr(), ViewsAttr());
  llvm::copy(grad->getResults(), operandGrads.begin());
  if (Type element = isMaskJoined ? elementOf(getMask()) : Type(); element && elementOf(operandGrads[3]) != element)
    operandGrads[3] = on.make<CastOp>(operandGrads[3], element);
  return success();
}

//===-- loss -----------------------------------------------------------------===//

ZC_GRADIENT(CrossEntropyOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  operandGrads[0] =
      GradientBuilder(builder, *this)
          .make<CrossEntropyGradOp>(resultGrads[0], getLogits(), getLabels(), getLse(), getIgnoreIndex(), getSum());
  return success();
}

ZC_GRADIENT(LinearCrossEntropyOp) {
  const bool isFrozen = llvm::none_of(wanted.drop_front(2), [](bool isWanted) { return isWanted; });
  auto grad = GradientBuilder(builder, *this)
                  .create<LinearCrossEntropyGradOp>(resultGrads[0], getInput(), getLabels(), getWeight(), getBias(),
                                                    getTransWeight(), getIgnoreIndex(), getSum(), getChunk(),
                                                    getCapAttr(), isFrozen);
  operandGrads[0] = grad.getDInput();
  llvm::copy(grad.getDLayer(), operandGrads.begin() + 2);
  return success();
}

ZC_GRADIENT(LinearLogSoftmaxOp) {
  if (wanted[2])
    return emitOpError("has no gradient for its shares, but the loss depends on trained parameters through them");
  GradientBuilder on(builder, *this);
  auto gradOf = [&](unsigned result) {
    Value grad = resultGrads[result], each = getPicked();
    return grad ? grad : on.expand(on.scalar(0, each), shapeOf(each));
  };
  Value byPicked = gradOf(0), byShared = gradOf(1);
  const bool isFrozen = llvm::none_of(wanted.drop_front(3), [](bool isWanted) { return isWanted; });
  auto grad = on.create<LinearLogSoftmaxGradOp>(byPicked, byShared, getInput(), getLabels(), getShares(), getWeight(),
                                                getBias(), getTransWeight(), getChunk(), getCapAttr(), isFrozen);
  operandGrads[0] = grad.getDInput();
  llvm::copy(grad.getDLayer(), operandGrads.begin() + 3);
  return success();
}

ZC_GRADIENT(DropoutOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<DropoutGradOp>(resultGrads[0], getMask(), getRatio());
  return success();
}
