//===- Layout.cpp - how operations compute on channels-last activations --------------------===//
#include "dialects/graph/Layout.h"
#include "dialects/graph/Infer.h"

using namespace mlir;

namespace zc::graph {

//===-- orders -------------------------------------------------------------===//

Shape toChannelsLast(ArrayRef<int64_t> entries) {
  Shape last(entries);
  if (last.size() > 2)
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  return last;
}

Shape toChannelsFirst(ArrayRef<int64_t> entries) {
  Shape first(entries);
  if (first.size() > 2)
    std::rotate(first.begin() + 1, first.end() - 1, first.end());
  return first;
}

int64_t dimChannelsLast(int64_t dim, int64_t rank) { return dim == 0 ? 0 : dim == 1 ? rank - 1 : dim - 1; }

static Shape identity(int64_t rank) { return llvm::to_vector<6>(llvm::seq<int64_t>(0, rank)); }
Shape permutationToLast(int64_t rank) { return toChannelsLast(identity(rank)); }
Shape permutationToFirst(int64_t rank) { return toChannelsFirst(identity(rank)); }

//===-- any operation ------------------------------------------------------===//

/// Tensors by their places: operands first, then results.
static llvm::SmallBitVector tensorsAt(Operation *op, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  llvm::SmallBitVector tensors(op->getNumOperands() + op->getNumResults());
  for (unsigned i : operands)
    tensors.set(i);
  for (unsigned i : results)
    tensors.set(op->getNumOperands() + i);
  return tensors;
}

static int64_t rankOf(Value value) { return tensorOf(value).getRank(); }

/// What broadcasts along leading dimensions has none of its own there: it stays.
static llvm::SmallBitVector elementwiseActivations(Operation *op) {
  auto type = op->getNumResults() > 0 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  if (!type || type.getRank() < 3 || !isElementwise(op)) // a trait is looked for in a list: last
    return {};
  const int64_t rank = type.getRank();
  llvm::SmallBitVector tensors(op->getNumOperands() + op->getNumResults());
  for (auto [i, value] : llvm::enumerate(op->getOperands()))
    if (rankOf(value) == rank)
      tensors.set(i);
  for (Value result : op->getResults())
    if (rankOf(result) != rank)
      return {};
  tensors.set(op->getNumOperands(), tensors.size());
  return tensors;
}

llvm::SmallBitVector activationsOf(Operation *op) {
  if (auto layoutable = dyn_cast<Layoutable>(op))
    return layoutable.getActivations();
  return elementwiseActivations(op);
}

static SmallVector<Value> rebuild(OpBuilder &builder, Operation *op, ValueRange operands,
                                  ArrayRef<NamedAttribute> changed) {
  llvm::SmallBitVector activations = activationsOf(op);
  NamedAttrList attributes(op->getAttrDictionary());
  for (NamedAttribute attribute : changed)
    attributes.set(attribute.getName(), attribute.getValue());
  SmallVector<Type> types;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    RankedTensorType type = tensorOf(result);
    types.push_back(activations.test(op->getNumOperands() + i) ? type.clone(toChannelsLast(type.getShape())) : type);
  }
  OperationState state(op->getLoc(), op->getName(), operands, types, attributes);
  return SmallVector<Value>(builder.create(state)->getResults());
}

SmallVector<Value> buildChannelsLast(OpBuilder &builder, Operation *op, ValueRange operands) {
  if (auto layoutable = dyn_cast<Layoutable>(op))
    return layoutable.buildChannelsLast(builder, operands);
  return rebuild(builder, op, operands, {});
}

static constexpr StringRef kChannelsLast = "channels_last";

SmallVector<Value> buildMarkedChannelsLast(OpBuilder &builder, Operation *op, ValueRange operands) {
  return rebuild(builder, op, operands, builder.getNamedAttr(kChannelsLast, builder.getUnitAttr()));
}

/// Attributes of one entry per dimension.
static NamedAttribute inOrder(OpBuilder &builder, StringAttr name, ArrayRef<int64_t> entries) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(toChannelsLast(entries)));
}

/// What is marked is in that order already.
static llvm::SmallBitVector unlessMarked(Operation *op, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  if (op->hasAttr(kChannelsLast) || rankOf(op->getOperand(0)) < 3)
    return {};
  return tensorsAt(op, operands, results);
}

//===-- convolutions, pools, norms -------------------------------------------===//

using Bits = llvm::SmallBitVector;

Bits ConvOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits ConvTransposeOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits ConvWeightGradOp::getActivations() { return unlessMarked(*this, {0, 1}, {}); }
Bits MaxPoolOp::getActivations() { return unlessMarked(*this, {0}, {0, 1}); }
Bits MaxPoolGradOp::getActivations() { return unlessMarked(*this, {0, 1}, {0}); }
Bits SumPoolOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits SumPoolGradOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits BatchNormOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits BatchNormGradOp::getActivations() { return unlessMarked(*this, {0, 1}, {0}); }
Bits BatchNormApplyOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits GroupNormOp::getActivations() { return unlessMarked(*this, {0}, {0}); }
Bits GroupNormGradOp::getActivations() { return unlessMarked(*this, {0, 1}, {0}); }

/// The library's layouts are of fp32 and bf16; f64 is computed by plain loops.
static int64_t rearranged(Value a, Value b) {
  return elementOf(a).isF64() ? 0 : tensorOf(a).getNumElements() + tensorOf(b).getNumElements();
}
int64_t ConvOp::getRearrangedElements() { return rearranged(getInput(), getResult()); }
int64_t ConvTransposeOp::getRearrangedElements() { return rearranged(getInput(), getResult()); }
int64_t ConvWeightGradOp::getRearrangedElements() { return rearranged(getInput(), getGrad()); }

/// The gradient of a pool says the shape of its result.
template <typename OpTy> static SmallVector<Value> buildPoolGrad(OpTy op, OpBuilder &builder, ValueRange operands) {
  return rebuild(builder, op, operands,
                 {inOrder(builder, op.getShapeAttrName(), op.getShape()),
                  builder.getNamedAttr(kChannelsLast, builder.getUnitAttr())});
}
SmallVector<Value> MaxPoolGradOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return buildPoolGrad(*this, builder, operands);
}
SmallVector<Value> SumPoolGradOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return buildPoolGrad(*this, builder, operands);
}

//===-- moving elements ------------------------------------------------------===//

/// All tensors, where they have one rank of at least 3.
static Bits allTensors(Operation *op) {
  int64_t rank = op->getNumOperands() > 0 ? rankOf(op->getOperand(0)) : 0;
  auto isOther = [&](Value value) { return rankOf(value) != rank; };
  if (rank < 3 || llvm::any_of(op->getOperands(), isOther) || llvm::any_of(op->getResults(), isOther))
    return {};
  return Bits(op->getNumOperands() + op->getNumResults(), true);
}

Bits ExpandOp::getActivations() {
  bool isOne = tensorOf(getInput()).getNumElements() == 1 && rankOf(getInput()) < rankOf(getResult());
  return isOne && rankOf(getResult()) >= 3 ? tensorsAt(*this, {}, {0}) : allTensors(*this);
}
SmallVector<Value> ExpandOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return rebuild(builder, *this, operands, inOrder(builder, getShapeAttrName(), getShape()));
}

Bits SliceOp::getActivations() { return allTensors(*this); }
SmallVector<Value> SliceOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return rebuild(builder, *this, operands,
                 {inOrder(builder, getOffsetsAttrName(), getOffsets()),
                  inOrder(builder, getSizesAttrName(), getSizes()),
                  inOrder(builder, getStridesAttrName(), getStrides())});
}

Bits SliceGradOp::getActivations() { return allTensors(*this); }
SmallVector<Value> SliceGradOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return rebuild(builder, *this, operands,
                 {inOrder(builder, getShapeAttrName(), getShape()),
                  inOrder(builder, getOffsetsAttrName(), getOffsets()),
                  inOrder(builder, getStridesAttrName(), getStrides())});
}

Bits ConcatOp::getActivations() { return allTensors(*this); }
SmallVector<Value> ConcatOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  int64_t axis = dimChannelsLast(getAxis(), rankOf(getResult()));
  return rebuild(builder, *this, operands, builder.getNamedAttr(getAxisAttrName(), builder.getI64IntegerAttr(axis)));
}

Bits PadOp::getActivations() { return allTensors(*this); }
SmallVector<Value> PadOp::buildChannelsLast(OpBuilder &builder, ValueRange operands) {
  return rebuild(builder, *this, operands,
                 {inOrder(builder, getLowAttrName(), getLow()), inOrder(builder, getHighAttrName(), getHigh())});
}

//===-- reductions -----------------------------------------------------------===//

/// Without `keepdims` what is left of the dimensions keeps its order: that of the channels alone, or with none.
template <typename OpTy> static Bits reduceActivations(OpTy op) {
  int64_t rank = rankOf(op.getInput());
  if (op.getKeepdims())
    return allTensors(op);
  auto isReduced = [&](int64_t dim) { return llvm::is_contained(op.getAxes(), dim); };
  bool leavesSpatial = !llvm::all_of(llvm::seq<int64_t>(2, std::max<int64_t>(2, rank)), isReduced);
  return rank < 3 || (leavesSpatial && !isReduced(1)) ? Bits() : tensorsAt(op, {0}, {});
}

template <typename OpTy> static SmallVector<Value> buildReduce(OpTy op, OpBuilder &builder, ValueRange operands) {
  Shape axes;
  for (int64_t axis : op.getAxes())
    axes.push_back(dimChannelsLast(axis, rankOf(op.getInput())));
  llvm::sort(axes);
  return rebuild(builder, op, operands, builder.getNamedAttr(op.getAxesAttrName(), builder.getDenseI64ArrayAttr(axes)));
}

#define ZC_REDUCE_LAYOUT(OpTy)                                                                                         \
  Bits OpTy::getActivations() { return reduceActivations(*this); }                                                     \
  SmallVector<Value> OpTy::buildChannelsLast(OpBuilder &builder, ValueRange operands) {                                \
    return buildReduce(*this, builder, operands);                                                                      \
  }
ZC_REDUCE_LAYOUT(ReduceSumOp)
ZC_REDUCE_LAYOUT(ReduceMeanOp)
ZC_REDUCE_LAYOUT(ReduceMaxOp)
ZC_REDUCE_LAYOUT(ReduceMinOp)
ZC_REDUCE_LAYOUT(ReduceProdOp)
#undef ZC_REDUCE_LAYOUT

} // namespace zc::graph
