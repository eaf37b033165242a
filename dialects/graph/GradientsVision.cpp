//===- GradientsVision.cpp - derivatives of convolutions, pools, batch and group norm ---===//
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

/// The dimension that is the channels.
template <typename OpTy> static int64_t channelsOf(OpTy op) {
  return op.getChannelsLast() ? tensorOf(op.getInput()).getRank() - 1 : 1;
}

/// Sum over everything but the channels.
static Value sumPerChannel(GradientBuilder &on, Value value, int64_t channels) {
  Shape axes;
  for (int64_t d = 0; d < tensorOf(value).getRank(); ++d)
    if (d != channels)
      axes.push_back(d);
  return on.reduceSum(value, axes, /*keepdims=*/false);
}

//===-- convolutions ---------------------------------------------------------===//

// With A the linear map x -> conv(x, w): conv_transpose is its adjoint, and both are linear in w. So the gradients of
// the two are each other, and conv_weight_grad with the roles of input and gradient exchanged.

/// The input's sizes without batch and channels.
static Shape spatialOf(ConvOp op) {
  Shape shape(shapeOf(op.getInput()));
  if (op.getChannelsLast())
    shape = toChannelsFirst(shape);
  return Shape(ArrayRef(shape).drop_front(2));
}

ZC_GRADIENT(ConvOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0];
  if (wanted[0])
    operandGrads[0] = on.make<ConvTransposeOp>(g, getWeight(), Value(), getStrides(), getDilations(), getLow(),
                                               getHigh(), getGroups(), spatialOf(*this), getChannelsLast());
  if (wanted[1])
    operandGrads[1] = on.make<ConvWeightGradOp>(getInput(), g, getStrides(), getDilations(), getLow(), getHigh(),
                                                getGroups(), shapeOf(getWeight()).drop_front(2), getChannelsLast());
  if (getBias() && wanted[2])
    operandGrads[2] = sumPerChannel(on, g, channelsOf(*this));
  return success();
}

ZC_GRADIENT(ConvTransposeOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0];
  if (wanted[0])
    operandGrads[0] = on.make<ConvOp>(g, getWeight(), Value(), getStrides(), getDilations(), getLow(), getHigh(),
                                      getGroups(), getChannelsLast());
  if (wanted[1])
    operandGrads[1] = on.make<ConvWeightGradOp>(g, getInput(), getStrides(), getDilations(), getLow(), getHigh(),
                                                getGroups(), shapeOf(getWeight()).drop_front(2), getChannelsLast());
  if (getBias() && wanted[2])
    operandGrads[2] = sumPerChannel(on, g, channelsOf(*this));
  return success();
}

//===-- pools ----------------------------------------------------------------===//

ZC_GRADIENT(MaxPoolOp) {
  operandGrads[0] = GradientBuilder(builder, *this)
                        .make<MaxPoolGradOp>(resultGrads[0], getIndices(), shapeOf(getInput()), getChannelsLast());
  return success();
}

ZC_GRADIENT(SumPoolOp) {
  operandGrads[0] = GradientBuilder(builder, *this)
                        .make<SumPoolGradOp>(resultGrads[0], getKernel(), getStrides(), getDilations(), getLow(),
                                             shapeOf(getInput()), getChannelsLast());
  return success();
}

//===-- norms ----------------------------------------------------------------===//

ZC_GRADIENT(BatchNormOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  auto grad = GradientBuilder(builder, *this)
                  .create<BatchNormGradOp>(resultGrads[0], getInput(), getScale(), getMean(), getVariance(),
                                           getEpsilon(), getChannelsLast());
  llvm::copy(grad->getResults(), operandGrads.begin());
  return success();
}

ZC_GRADIENT(GroupNormOp) {
  if (failed(onlyFirstResult(*this, resultGrads)))
    return failure();
  auto grad = GradientBuilder(builder, *this)
                  .create<GroupNormGradOp>(resultGrads[0], getInput(), getScale(), getMean(), getVariance(),
                                           getGroups(), getEpsilon(), getChannelsLast());
  llvm::copy(grad->getResults(), operandGrads.begin());
  return success();
}

/// y = (x - mean) r scale + bias with r = 1 / sqrt(variance + epsilon): an affine map per channel. Exporters write
/// norms without running statistics (torch's native_batch_norm with training) with statistics computed from x, which
/// then have gradients: d_mean = -scale r sum g, d_variance = -scale r^3 / 2 * sum g (x - mean).
ZC_GRADIENT(BatchNormApplyOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0];
  Shape perChannel(tensorOf(g).getRank(), 1);
  int64_t channels = channelsOf(*this);
  perChannel[channels] = shapeOf(g)[channels];
  Value shifted = on.add(getVariance(), on.scalar(getEpsilon().convertToDouble(), getVariance()));
  Value deviation = on.make<SqrtOp>(shifted);
  if (wanted[0])
    operandGrads[0] = on.mul(g, on.reshape(on.div(getScale(), deviation), perChannel));
  Value slope; // sum of g (x - mean) r
  if (wanted[1] || wanted[4])
    slope = on.div(sumPerChannel(on, on.mul(g, on.sub(getInput(), on.reshape(getMean(), perChannel))), channels),
                   deviation);
  operandGrads[1] = slope;
  Value sum = wanted[2] || wanted[3] ? sumPerChannel(on, g, channels) : Value();
  operandGrads[2] = sum;
  if (wanted[3])
    operandGrads[3] = on.neg(on.div(on.mul(sum, getScale()), deviation));
  if (wanted[4])
    operandGrads[4] = on.div(on.mul(on.scale(slope, -0.5), getScale()), shifted);
  return success();
}
