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

ZC_GRADIENT(SliceOp) {
  GradientBuilder on(builder, *this);
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

ZC_GRADIENT(GatherOp) {
  GradientBuilder on(builder, *this);
  operandGrads[0] = on.make<GatherGradOp>(resultGrads[0], getIndices(), shapeOf(getData()), getAxis());
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

ZC_GRADIENT(ReduceMaxOp) {
  GradientBuilder on(builder, *this);
  Value x = getInput();
  Shape kept = keptShape(x, getAxes());
  Value isMax = on.make<EqualOp>(x, on.reshape(getResult(), kept));
  Value ones = on.make<CastOp>(isMax, TypeAttr::get(elementOf(x)));
  Value share = on.div(on.reshape(resultGrads[0], kept), on.reduceSum(ones, getAxes(), /*keepdims=*/true));
  operandGrads[0] = on.mul(ones, share);
  return success();
}
