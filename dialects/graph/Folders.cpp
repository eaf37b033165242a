//===- Folders.cpp - operations that fold away -------------------------------===//
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

/// `value` with result type `type` if it is a splat; moving elements of a splat changes nothing.
static OpFoldResult foldSplat(Attribute value, Type type) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(value);
  return splat ? OpFoldResult(splat.resizeSplat(cast<ShapedType>(type))) : OpFoldResult();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType())
    return getInput();
  auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getInput());
  auto from = dyn_cast<FloatType>(elementOf(getInput())), to = dyn_cast<FloatType>(getTo());
  if (!splat || !from || !to)
    return {};
  APFloat value = splat.getSplatValue<APFloat>();
  bool lossy = false;
  value.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return DenseElementsAttr::get(cast<ShapedType>(getResult().getType()), value);
}

/// Products of float splats: what the chain rule makes of constant factors. Rounded once, as in the kernel.
OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  auto lhs = dyn_cast_or_null<SplatElementsAttr>(adaptor.getLhs());
  auto rhs = dyn_cast_or_null<SplatElementsAttr>(adaptor.getRhs());
  if (!lhs || !rhs || !isa<FloatType>(lhs.getElementType()))
    return {};
  return DenseElementsAttr::get(cast<ShapedType>(getResult().getType()),
                                lhs.getSplatValue<APFloat>() * rhs.getSplatValue<APFloat>());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType())
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return dense.reshape(cast<ShapedType>(getResult().getType()));
  if (auto before = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(before.getInput());
    return getResult();
  }
  return {};
}

/// Whether a slice of `from` that gives `to` takes all of it.
static bool takesAll(Type from, Type to, ArrayRef<int64_t> strides) {
  // Of equal types with steps of 1 the offsets can only be 0.
  return from == to && llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return takesAll(getInput().getType(), getResult().getType(), getStrides()) ? OpFoldResult(getInput())
                                                                             : OpFoldResult();
}

OpFoldResult SliceGradOp::fold(FoldAdaptor) {
  return takesAll(getResult().getType(), getGrad().getType(), getStrides()) ? OpFoldResult(getGrad()) : OpFoldResult();
}

/// Of what has no elements nothing is left, unless nothing else is there.
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  const auto axis = static_cast<unsigned>(getAxis());
  SmallVector<Value> present;
  for (Value input : getInputs())
    if (shapeOf(input)[axis] != 0 || input.getType() == getResult().getType())
      present.push_back(input);
  if (present.empty())
    return {};
  if (present.front().getType() == getResult().getType())
    return present.front();
  if (present.size() == getInputs().size())
    return {};
  getInputsMutable().assign(present);
  return getResult();
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  auto isNothing = [](int64_t amount) { return amount == 0; };
  return llvm::all_of(getLow(), isNothing) && llvm::all_of(getHigh(), isNothing) ? OpFoldResult(getInput())
                                                                                 : OpFoldResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  bool identity = llvm::all_of(llvm::enumerate(getPermutation()),
                               [](auto entry) { return int64_t(entry.index()) == entry.value(); });
  if (identity)
    return getInput();
  if (auto before = getInput().getDefiningOp<TransposeOp>()) {
    Shape permutation;
    for (int64_t dim : getPermutation())
      permutation.push_back(before.getPermutation()[static_cast<size_t>(dim)]);
    setPermutation(permutation);
    getInputMutable().assign(before.getInput());
    return getResult();
  }
  return foldSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult ExpandOp::fold(FoldAdaptor adaptor) {
  return getInput().getType() == getResult().getType() ? OpFoldResult(getInput())
                                                       : foldSplat(adaptor.getInput(), getResult().getType());
}
