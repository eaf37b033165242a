//===- GraphTensor.cpp - result types of moving and reducing ops -------------===//
#include "dialects/graph/Infer.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace zc::graph;

ZC_INFER(ReshapeOp) {
  Infer infer(location, types);
  RankedTensorType input = tensorOf(adaptor.getInput());
  if (failed(infer.result(adaptor.getShape(), input.getElementType())))
    return failure();
  if (cast<RankedTensorType>(types.back()).getNumElements() != input.getNumElements())
    return infer.error("[reshape_c1] shapes " + toText(input.getShape()) + " and " + toText(adaptor.getShape()) +
                       " have different numbers of elements");
  return success();
}

ZC_INFER(TransposeOp) {
  Infer infer(location, types);
  ArrayRef<int64_t> input = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  llvm::BitVector seen(input.size());
  Shape shape;
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= int64_t(input.size()) || seen.test(dim))
      break;
    seen.set(dim);
    shape.push_back(input[dim]);
  }
  if (shape.size() != input.size() || permutation.size() != input.size())
    return infer.error("[transpose_c1] permutation " + toText(permutation) +
                       " does not permute the dimensions of rank " + Twine(input.size()));
  return infer.result(shape, elementOf(adaptor.getInput()));
}

ZC_INFER(ExpandOp) {
  Infer infer(location, types);
  ArrayRef<int64_t> input = shapeOf(adaptor.getInput());
  std::optional<Shape> shape = broadcastShapes(input, adaptor.getShape());
  if (!shape || ArrayRef<int64_t>(*shape) != adaptor.getShape())
    return infer.error("[expand_c1] shape " + toText(input) + " does not expand to " + toText(adaptor.getShape()));
  return infer.result(*shape, elementOf(adaptor.getInput()));
}

/// One entry per dimension, no stride 0, and every touched index inside its dimension.
static LogicalResult checkSlice(const Infer &infer, ArrayRef<int64_t> shape, ArrayRef<int64_t> offsets,
                                ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  for (size_t entries : {offsets.size(), sizes.size(), strides.size()})
    if (entries != shape.size())
      return infer.error("[slice_c1] " + Twine(entries) + " entries for rank " + Twine(shape.size()));
  for (auto [dim, offset, size, stride] : llvm::zip(shape, offsets, sizes, strides)) {
    if (stride == 0)
      return infer.error("[slice_c2] stride is 0");
    if (size < 0)
      return infer.error("[slice_c3] size " + Twine(size) + " is negative");
    if (size == 0)
      continue;
    int64_t last = 0;
    if (llvm::MulOverflow(size - 1, stride, last) || llvm::AddOverflow(last, offset, last) || offset < 0 ||
        offset >= dim || last < 0 || last >= dim)
      return infer.error("[slice_c4] " + Twine(size) + " elements from " + Twine(offset) + " by " + Twine(stride) +
                         " leave a dimension of " + Twine(dim));
  }
  return success();
}

ZC_INFER(SliceOp) {
  Infer infer(location, types);
  if (failed(checkSlice(infer, shapeOf(adaptor.getInput()), adaptor.getOffsets(), adaptor.getSizes(),
                        adaptor.getStrides())))
    return failure();
  return infer.result(adaptor.getSizes(), elementOf(adaptor.getInput()));
}

double SliceOp::getBytes() { return bytesOfPicked(getInput(), getResult()); }

ZC_INFER(SliceGradOp) {
  Infer infer(location, types);
  if (failed(checkSlice(infer, adaptor.getShape(), adaptor.getOffsets(), shapeOf(adaptor.getGrad()),
                        adaptor.getStrides())))
    return failure();
  return infer.result(adaptor.getShape(), elementOf(adaptor.getGrad()));
}

ZC_INFER(ConcatOp) {
  Infer infer(location, types);
  if (adaptor.getInputs().empty())
    return infer.error("[concat_c1] nothing to join");
  Value first = adaptor.getInputs().front();
  Shape shape(shapeOf(first));
  int64_t axis = adaptor.getAxis();
  if (failed(infer.axisInRank(axis, shape.size())))
    return failure();
  for (Value input : adaptor.getInputs().drop_front()) {
    Shape other(shapeOf(input));
    if (failed(infer.sameElement(first, input)))
      return failure();
    if (other.size() != shape.size())
      return infer.error("[concat_c2] ranks " + Twine(shape.size()) + " and " + Twine(other.size()) + " differ");
    if (llvm::AddOverflow(shape[axis], other[axis], shape[axis]))
      return infer.error("[shape_c2] the joined dimension overflows");
    other[axis] = shape[axis];
    if (other != shape)
      return infer.error("[concat_c3] shapes " + toText(shapeOf(first)) + " and " + toText(shapeOf(input)) +
                         " differ outside axis " + Twine(axis));
  }
  return infer.result(shape, elementOf(first));
}

ZC_INFER(PadOp) {
  Infer infer(location, types);
  Shape shape(shapeOf(adaptor.getInput()));
  for (size_t entries : {adaptor.getLow().size(), adaptor.getHigh().size()})
    if (entries != shape.size())
      return infer.error("[pad_c1] " + Twine(entries) + " entries for rank " + Twine(shape.size()));
  for (auto [dim, low, high] : llvm::zip(shape, adaptor.getLow(), adaptor.getHigh())) {
    constexpr int64_t limit = int64_t(1) << 48; // keeps the sum, and the negated amounts of the gradient, representable
    int64_t padded = std::abs(low / 2) + std::abs(high / 2) < limit ? dim + low + high : -1;
    if (padded < 0)
      return infer.error("[pad_c2] dimension " + Twine(dim) + " padded by " + Twine(low) + " and " + Twine(high) +
                         " is negative or too large");
    dim = padded;
  }
  return infer.result(shape, elementOf(adaptor.getInput()));
}

ZC_INFER(IotaOp) {
  Infer infer(location, types);
  auto type = dyn_cast<RankedTensorType>(adaptor.getType());
  if (!type || type.getRank() != 1)
    return infer.error("[iota_c1] " + toText(adaptor.getType()) + " is no tensor of rank 1");
  return infer.result(type);
}

ZC_INFER(LossScaleOp) {
  Infer infer(location, types);
  auto type = dyn_cast<RankedTensorType>(adaptor.getType());
  if (!type || type.getRank() != 0)
    return infer.error("[loss_scale_c1] " + toText(adaptor.getType()) + " is no scalar");
  return infer.result(type);
}

static LogicalResult inferReduce(Infer infer, Value input, ArrayRef<int64_t> axes, bool keepdims) {
  RankedTensorType type = tensorOf(input);
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (axis <= previous || axis >= type.getRank())
      return infer.error("[reduce_c1] axis " + Twine(axis) + " after " + Twine(previous) + " in rank " +
                         Twine(type.getRank()) + ": axes must be sorted, unique and inside the rank");
    previous = axis;
  }
  Shape shape;
  for (auto [i, dim] : llvm::enumerate(type.getShape())) {
    if (!llvm::is_contained(axes, int64_t(i)))
      shape.push_back(dim);
    else if (keepdims)
      shape.push_back(1);
  }
  return infer.result(shape, type.getElementType());
}

#define INFER_REDUCE(OpTy)                                                                                             \
  ZC_INFER(OpTy) {                                                                                                     \
    return inferReduce(Infer(location, types), adaptor.getInput(), adaptor.getAxes(), adaptor.getKeepdims());          \
  }
INFER_REDUCE(ReduceSumOp)
INFER_REDUCE(ReduceMeanOp)
INFER_REDUCE(ReduceMaxOp)
INFER_REDUCE(ReduceMinOp)
INFER_REDUCE(ReduceProdOp)

ZC_INFER(BitcastOp) {
  Infer infer(location, types);
  Type from = elementOf(adaptor.getInput());
  auto bytes = [](Type type) { return type.isIntOrFloat() ? (type.getIntOrFloatBitWidth() + 7) / 8 : 0; };
  if (bytes(from) != bytes(adaptor.getTo()))
    return infer.error("[bitcast_c1] elements of " + toText(from) + " and " + toText(adaptor.getTo()) +
                       " differ in size");
  return infer.result(shapeOf(adaptor.getInput()), adaptor.getTo());
}

int ReshapeOp::getViewOperand() { return 0; }
int BitcastOp::getViewOperand() { return 0; }
