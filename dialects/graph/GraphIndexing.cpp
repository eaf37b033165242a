//===- GraphIndexing.cpp - result types of the gather family -----------------===//
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

/// data[:axis] ++ indices ++ data[axis+1:].
static FailureOr<Shape> gatherShape(const Infer &infer, ArrayRef<int64_t> data, ArrayRef<int64_t> indices,
                                    int64_t axis) {
  if (failed(infer.axisInRank(axis, data.size())))
    return failure();
  Shape shape(data.take_front(axis));
  shape.append(indices.begin(), indices.end());
  llvm::append_range(shape, data.drop_front(axis + 1));
  return shape;
}

ZC_INFER(GatherOp) {
  Infer infer(location, types);
  FailureOr<Shape> shape =
      gatherShape(infer, shapeOf(adaptor.getData()), shapeOf(adaptor.getIndices()), adaptor.getAxis());
  if (failed(shape))
    return failure();
  return infer.result(*shape, elementOf(adaptor.getData()));
}

ZC_INFER(GatherGradOp) {
  Infer infer(location, types);
  FailureOr<Shape> shape = gatherShape(infer, adaptor.getShape(), shapeOf(adaptor.getIndices()), adaptor.getAxis());
  if (failed(shape) || failed(infer.hasShape("gather_grad_c1", "grad", adaptor.getGrad(), *shape)))
    return failure();
  auto type = RankedTensorType::get(adaptor.getShape(), elementOf(adaptor.getGrad()));
  if (Value onto = adaptor.getOnto(); onto && failed(infer.hasType("gather_grad_c2", "onto", onto, type)))
    return failure();
  return infer.result(type);
}

/// Of what is picked by indices, which are read too.
template <typename Op> static double bytesOfIndexed(Op op) {
  return bytesOfPicked(op.getData(), op.getResult()) + double(bytesOf(tensorOf(op.getIndices())));
}
double GatherOp::getBytes() { return bytesOfIndexed(*this); }
double GatherElementsOp::getBytes() { return bytesOfIndexed(*this); }
double GatherNdOp::getBytes() { return bytesOfIndexed(*this); }

/// Of what is added onto only the rows that slices come to.
double GatherGradOp::getBytes() {
  if (!getOnto())
    return defaultBytes(*this);
  return 3 * double(bytesOf(tensorOf(getGrad()))) + double(bytesOf(tensorOf(getIndices())));
}

bool GatherGradOp::mayOverwrite(unsigned index, unsigned) {
  return index == 2 && viewedValue(getOnto()) != viewedValue(getGrad());
}

static LogicalResult checkGatherElements(const Infer &infer, ArrayRef<int64_t> data, ArrayRef<int64_t> indices,
                                         int64_t axis) {
  if (failed(infer.axisInRank(axis, data.size())))
    return failure();
  if (indices.size() != data.size())
    return infer.error("[gather_elements_c1] ranks " + Twine(data.size()) + " and " + Twine(indices.size()) +
                       " differ");
  for (size_t i = 0; i < data.size(); ++i)
    if (int64_t(i) != axis && indices[i] > data[i])
      return infer.error("[gather_elements_c2] indices " + toText(indices) + " exceed data " + toText(data) +
                         " outside axis " + Twine(axis));
  return success();
}

ZC_INFER(GatherElementsOp) {
  Infer infer(location, types);
  ArrayRef<int64_t> indices = shapeOf(adaptor.getIndices());
  if (failed(checkGatherElements(infer, shapeOf(adaptor.getData()), indices, adaptor.getAxis())))
    return failure();
  return infer.result(indices, elementOf(adaptor.getData()));
}

ZC_INFER(GatherElementsGradOp) {
  Infer infer(location, types);
  ArrayRef<int64_t> indices = shapeOf(adaptor.getIndices());
  if (failed(checkGatherElements(infer, adaptor.getShape(), indices, adaptor.getAxis())) ||
      failed(infer.hasShape("gather_elements_grad_c1", "grad", adaptor.getGrad(), indices)))
    return failure();
  return infer.result(adaptor.getShape(), elementOf(adaptor.getGrad()));
}

/// indices[:-1] ++ data[batch_dims + tuple length:].
static FailureOr<Shape> gatherNdShape(const Infer &infer, ArrayRef<int64_t> data, ArrayRef<int64_t> indices,
                                      int64_t batchDims) {
  int64_t rank = data.size(), indexRank = indices.size();
  if (batchDims < 0 || batchDims >= rank || batchDims >= indexRank)
    return infer.error("[gather_nd_c1] batch_dims " + Twine(batchDims) + " is not below ranks " + Twine(rank) +
                       " and " + Twine(indexRank));
  if (data.take_front(batchDims) != indices.take_front(batchDims))
    return infer.error("[gather_nd_c2] batch dimensions " + toText(data.take_front(batchDims)) + " and " +
                       toText(indices.take_front(batchDims)) + " differ");
  int64_t length = indices.back();
  if (length < 1 || length > rank - batchDims)
    return infer.error("[gather_nd_c3] tuples of " + Twine(length) + " indices into " + Twine(rank - batchDims) +
                       " dimensions");
  Shape shape(indices.drop_back());
  llvm::append_range(shape, data.drop_front(batchDims + length));
  return shape;
}

ZC_INFER(GatherNdOp) {
  Infer infer(location, types);
  FailureOr<Shape> shape =
      gatherNdShape(infer, shapeOf(adaptor.getData()), shapeOf(adaptor.getIndices()), adaptor.getBatchDims());
  if (failed(shape))
    return failure();
  return infer.result(*shape, elementOf(adaptor.getData()));
}

ZC_INFER(GatherNdGradOp) {
  Infer infer(location, types);
  FailureOr<Shape> shape =
      gatherNdShape(infer, adaptor.getShape(), shapeOf(adaptor.getIndices()), adaptor.getBatchDims());
  if (failed(shape) || failed(infer.hasShape("gather_nd_grad_c1", "grad", adaptor.getGrad(), *shape)))
    return failure();
  return infer.result(adaptor.getShape(), elementOf(adaptor.getGrad()));
}

//===-- scatters ---------------------------------------------------------------===//

ZC_INFER(ScatterElementsOp) {
  Infer infer(location, types);
  Value data = adaptor.getData();
  ArrayRef<int64_t> indices = shapeOf(adaptor.getIndices());
  if (failed(infer.sameElement(data, adaptor.getUpdates())) ||
      failed(checkGatherElements(infer, shapeOf(data), indices, adaptor.getAxis())) ||
      failed(infer.hasShape("scatter_c1", "updates", adaptor.getUpdates(), indices)))
    return failure();
  return infer.result(data.getType());
}

ZC_INFER(ScatterNdOp) {
  Infer infer(location, types);
  Value data = adaptor.getData();
  if (failed(infer.sameElement(data, adaptor.getUpdates())))
    return failure();
  FailureOr<Shape> shape = gatherNdShape(infer, shapeOf(data), shapeOf(adaptor.getIndices()), 0);
  if (failed(shape) || failed(infer.hasShape("scatter_nd_c1", "updates", adaptor.getUpdates(), *shape)))
    return failure();
  return infer.result(data.getType());
}

//===-- order --------------------------------------------------------------------===//

ZC_INFER(TopKOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput();
  Shape shape(shapeOf(input));
  int64_t axis = adaptor.getAxis(), k = adaptor.getK();
  if (failed(infer.axisInRank(axis, shape.size())))
    return failure();
  if (k < 0 || k > shape[axis])
    return infer.error("[top_k_c1] k is " + Twine(k) + " of " + Twine(shape[axis]) + " elements");
  shape[axis] = k;
  return failure(failed(infer.result(shape, elementOf(input))) ||
                 failed(infer.result(shape, IntegerType::get(input.getContext(), 64))));
}

ZC_INFER(ArgMaxOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput();
  Shape shape(shapeOf(input));
  int64_t axis = adaptor.getAxis();
  if (failed(infer.axisInRank(axis, shape.size())))
    return failure();
  if (shape[axis] == 0)
    return infer.error("[arg_max_c1] axis " + Twine(axis) + " has no elements");
  shape.erase(shape.begin() + axis);
  return infer.result(shape, IntegerType::get(input.getContext(), 64));
}

#define INFER_CUMULATIVE(OpTy)                                                                                         \
  ZC_INFER(OpTy) {                                                                                                     \
    Infer infer(location, types);                                                                                      \
    if (failed(infer.axisInRank(adaptor.getAxis(), shapeOf(adaptor.getInput()).size())))                               \
      return failure();                                                                                                \
    return infer.result(adaptor.getInput().getType());                                                                 \
  }
INFER_CUMULATIVE(CumSumOp)
INFER_CUMULATIVE(CumProdOp)
