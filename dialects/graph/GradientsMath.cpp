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

ZC_GRADIENT(AttentionOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  if (getMask() && wanted[3])
    return emitOpError("the mask depends on a trainable parameter, but attention has no gradient for its mask");
  auto grad = GradientBuilder(builder, *this)
                  .create<AttentionGradOp>(resultGrads[0], getQuery(), getKey(), getValue(), getResult(), getLse(),
                                           getMask(), getScale(), getCausal());
  llvm::copy(grad->getResults(), operandGrads.begin());
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

ZC_GRADIENT(DropoutOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<DropoutGradOp>(resultGrads[0], getMask(), getRatio());
  return success();
}
