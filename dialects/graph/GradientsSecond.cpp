//===- GradientsSecond.cpp - derivatives of operations that are gradients ------===//
//
// What the Gradient of ai.onnx.preview.training gives is differentiated again, as in gradient penalties. Most of these
// operations are linear in the gradient that they take, and the adjoint of the adjoint is the operation of the forward.
//
//===----------------------------------------------------------------------===//
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

//===-- moves ------------------------------------------------------------------===//

ZC_GRADIENT(SliceGradOp) {
  operandGrads[0] =
      GradientBuilder(builder, *this).make<SliceOp>(resultGrads[0], getOffsets(), shapeOf(getGrad()), getStrides());
  return success();
}

ZC_GRADIENT(GatherGradOp) {
  if (wanted[0])
    operandGrads[0] =
        GradientBuilder(builder, *this).make<GatherOp>(resultGrads[0], getIndices(), getAxisAttr(), IntegerAttr());
  if (getOnto() && wanted[2])
    operandGrads[2] = resultGrads[0];
  return success();
}

ZC_GRADIENT(GatherElementsGradOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<GatherElementsOp>(resultGrads[0], getIndices(), getAxis());
  return success();
}

ZC_GRADIENT(GatherNdGradOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<GatherNdOp>(resultGrads[0], getIndices(), getBatchDims());
  return success();
}

//===-- activations --------------------------------------------------------------===//

ZC_GRADIENT(DropoutGradOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<DropoutGradOp>(resultGrads[0], getMask(), getRatio());
  return success();
}

/// With s = sigmoid(x): silu'' = s (1 - s) (2 + x (1 - 2 s)).
ZC_GRADIENT(SiluGradOp) {
  GradientBuilder on(builder, *this);
  Value h = resultGrads[0], x = getInput(), one = on.scalar(1, x);
  if (wanted[0])
    operandGrads[0] = on.make<SiluGradOp>(h, x);
  if (wanted[1]) {
    Value s = on.make<SigmoidOp>(x), slope = on.mul(s, on.sub(one, s));
    Value bend = on.add(on.scalar(2, x), on.mul(x, on.sub(one, on.scale(s, 2))));
    operandGrads[1] = on.mul(on.mul(h, getGrad()), on.mul(slope, bend));
  }
  return success();
}

/// phi(x) (2 - x^2), phi the density of the normal distribution.
static Value geluBend(GradientBuilder &on, Value x) {
  Value square = on.mul(x, x);
  Value density = on.scale(on.make<ExpOp>(on.scale(square, -0.5)), 0.3989422804014327 /* 1 / sqrt(2 pi) */);
  return on.mul(density, on.sub(on.scalar(2, x), square));
}

/// With t = tanh(u), u = c (x + a x^3): (x t)'' / 2 = (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
static Value tanhGeluBend(GradientBuilder &on, Value x) {
  const double c = 0.7978845608028654 /* sqrt(2 / pi) */, a = 0.044715;
  Value square = on.mul(x, x), one = on.scalar(1, x);
  Value t = on.make<TanhOp>(on.scale(on.mul(x, on.add(one, on.scale(square, a))), c));
  Value slope = on.scale(on.add(one, on.scale(square, 3 * a)), c);
  Value inner = on.sub(on.scale(x, 3 * a * c), on.mul(t, on.mul(slope, slope)));
  return on.mul(on.sub(one, on.mul(t, t)), on.add(slope, on.mul(x, inner)));
}

ZC_GRADIENT(GeluGradOp) {
  GradientBuilder on(builder, *this);
  Value h = resultGrads[0], x = getInput();
  if (wanted[0])
    operandGrads[0] = on.make<GeluGradOp>(h, x, getTanh());
  if (wanted[1])
    operandGrads[1] = on.mul(on.mul(h, getGrad()), getTanh() ? tanhGeluBend(on, x) : geluBend(on, x));
  return success();
}

//===-- softmaxes ----------------------------------------------------------------===//

/// d = y (g - s), s = sum g y: by y, h (g - s) - g sum h y.
ZC_GRADIENT(SoftmaxGradOp) {
  GradientBuilder on(builder, *this);
  Value h = resultGrads[0], g = getGrad(), y = getOutput();
  auto sum = [&](Value value) { return on.reduceSum(value, {int64_t(getAxis())}, /*keepdims=*/true); };
  if (wanted[0])
    operandGrads[0] = on.make<SoftmaxGradOp>(h, y, getAxis());
  if (wanted[1])
    operandGrads[1] = on.sub(on.mul(h, on.sub(g, sum(on.mul(g, y)))), on.mul(g, sum(on.mul(h, y))));
  return success();
}

/// d = g - e^y sum g: by g, h - sum h e^y; by y, -h e^y sum g.
ZC_GRADIENT(LogSoftmaxGradOp) {
  GradientBuilder on(builder, *this);
  Value h = resultGrads[0], scaled = on.mul(h, on.make<ExpOp>(getOutput()));
  auto sum = [&](Value value) { return on.reduceSum(value, {int64_t(getAxis())}, /*keepdims=*/true); };
  if (wanted[0])
    operandGrads[0] = on.sub(h, sum(scaled));
  if (wanted[1])
    operandGrads[1] = on.neg(on.mul(scaled, sum(getGrad())));
  return success();
}

//===-- windows ------------------------------------------------------------------===//

/// Linear in both: the convolution of `input` with the direction, and its adjoint.
ZC_GRADIENT(ConvWeightGradOp) {
  GradientBuilder on(builder, *this);
  Value h = resultGrads[0];
  Shape input(shapeOf(getInput()));
  if (getChannelsLast())
    input = toChannelsFirst(input);
  if (wanted[0])
    operandGrads[0] = on.make<ConvTransposeOp>(getGrad(), h, Value(), getStrides(), getDilations(), getLow(), getHigh(),
                                               getGroups(), ArrayRef<int64_t>(input).drop_front(2), getChannelsLast());
  if (wanted[1])
    operandGrads[1] = on.make<ConvOp>(getInput(), h, Value(), getStrides(), getDilations(), getLow(), getHigh(),
                                      getGroups(), getChannelsLast());
  return success();
}

ZC_GRADIENT(SumPoolGradOp) {
  Shape windows(shapeOf(getGrad()));
  if (getChannelsLast())
    windows = toChannelsFirst(windows);
  operandGrads[0] = GradientBuilder(builder, *this)
                        .make<SumPoolOp>(resultGrads[0], getKernel(), getStrides(), getDilations(), getLow(),
                                         ArrayRef<int64_t>(windows).drop_front(2), getChannelsLast());
  return success();
}

/// What stands at each maximum's place in its plane; 0 for windows without one.
ZC_GRADIENT(MaxPoolGradOp) {
  if (getChannelsLast()) // made behind all derivatives
    return emitOpError("has no derivative where activations are channels-last");
  GradientBuilder on(builder, *this);
  auto planes = [&](Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    int64_t plane = 1;
    for (int64_t dim : shape.drop_front(2))
      plane *= dim;
    return on.reshape(value, {shape[0], shape[1], plane});
  };
  Value indices = planes(getIndices()), zero = on.scalar(0, indices), isEmpty = on.less(indices, zero);
  if (tensorOf(resultGrads[0]).getNumElements() == 0) { // no window has a maximum
    operandGrads[0] = on.expand(on.scalar(0, getGrad()), shapeOf(getGrad()));
    return success();
  }
  Value picked = on.make<GatherElementsOp>(planes(resultGrads[0]), on.select(isEmpty, zero, indices), uint64_t(2));
  operandGrads[0] = on.reshape(on.select(isEmpty, on.scalar(0, picked), picked), shapeOf(getGrad()));
  return success();
}
