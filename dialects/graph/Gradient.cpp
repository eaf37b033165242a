#include "dialects/graph/Gradient.h"

using namespace mlir;

namespace zc::graph {

Value TensorBuilder::scalar(double value, Value like) {
  Type element = elementOf(like);
  Attribute number = isa<FloatType>(element) ? Attribute(builder.getFloatAttr(element, value))
                                             : builder.getIntegerAttr(element, static_cast<int64_t>(value));
  return make<ConstantOp>(DenseElementsAttr::get(RankedTensorType::get({}, element), number));
}

Value TensorBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  return shapeOf(value) == shape ? value : make<ReshapeOp>(value, shape);
}

Value TensorBuilder::expand(Value value, ArrayRef<int64_t> shape) {
  return shapeOf(value) == shape ? value : make<ExpandOp>(value, shape);
}

Value TensorBuilder::reduceSum(Value value, ArrayRef<int64_t> axes, bool keepdims) {
  return axes.empty() ? value : make<ReduceSumOp>(value, axes, keepdims);
}

Value TensorBuilder::turnParts(Value value, int64_t axis, int64_t parts) {
  Shape shape(shapeOf(value)), apart = shape;
  apart[axis] /= parts;
  apart.insert(apart.begin() + axis, parts);
  Shape offsets(apart.size(), 0), strides(apart.size(), 1);
  offsets[axis] = parts - 1;
  strides[axis] = -1;
  return reshape(make<SliceOp>(reshape(value, apart), offsets, apart, strides), shape);
}

Value TensorBuilder::unbroadcast(Value grad, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(grad);
  size_t lead = from.size() - shape.size();
  Shape axes;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1))
      axes.push_back(i);
  return reshape(reduceSum(grad, axes, /*keepdims=*/false), shape);
}

LogicalResult onlyFirstResult(Operation *op, ValueRange resultGrads) {
  for (size_t i = 1; i < resultGrads.size(); ++i)
    if (resultGrads[i])
      return op->emitOpError("result ") << i << " has no gradient, but the loss depends on it";
  return success();
}

} // namespace zc::graph
