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
  return infer.result(adaptor.getShape(), elementOf(adaptor.getGrad()));
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
