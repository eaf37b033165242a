#include "compiler/grad/HeadOperands.h"
#include "kernels/shapes/HeadShapes.h"

#include <cmath>

using namespace mlir;

namespace zc::graph {

bool isNarrow(Type element) { return element.isBF16() || element.isF16(); }

bool leavesClasses(Operation *op) {
  Value from = op->getNumOperands() == 1 ? op->getOperand(0) : Value();
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getOffsets().back() == 0 && slice.getStrides().back() == 1 &&
           slice.getSizes().back() == shapeOf(from).back();
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return !reshape.getShape().empty() && !shapeOf(from).empty() && shapeOf(from).back() == reshape.getShape().back();
  return isa<CastOp>(op) && isNarrow(elementOf(from)) && elementOf(op->getResult(0)).isF32();
}

bool isRowOf(Value row, Value classes) {
  ArrayRef<int64_t> shape = shapeOf(row);
  return !shape.empty() && !shapeOf(classes).empty() && shape.back() == shapeOf(classes).back() &&
         tensorOf(row).getNumElements() == shape.back();
}

namespace {

/// What an operation multiplies, and by which number.
struct Scaled {
  Value from;
  double factor;
};

std::optional<double> numberOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  APFloat number = splat.getSplatValue<APFloat>();
  bool loses = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  const double found = number.convertToDouble();
  return std::isfinite(found) && found != 0 ? std::optional(found) : std::nullopt;
}

std::optional<Scaled> scaledBy(Operation *op) {
  if (!isa<MulOp, DivOp>(op))
    return std::nullopt;
  for (unsigned i : {1u, 0u}) { // the number's place
    std::optional<double> number = numberOf(op->getOperand(i));
    if (number && op->getOperand(1 - i).getType() == op->getResult(0).getType() && (i == 1 || isa<MulOp>(op)))
      return Scaled{op->getOperand(1 - i), isa<DivOp>(op) ? 1 / *number : *number};
  }
  return std::nullopt;
}

/// Where a sum has the logits; it has the row in the other place.
std::optional<unsigned> logitsOfSum(Operation *op) {
  if (isa<AddOp>(op))
    for (unsigned i : {0u, 1u})
      if (op->getOperand(i).getType() == op->getResult(0).getType() &&
          isRowOf(op->getOperand(1 - i), op->getOperand(i)))
        return i;
  return std::nullopt;
}

/// Rounded to 16 bits, a scale would be another one for all logits.
bool isExactIn(Type element, double scale) {
  bool loses = false;
  if (isNarrow(element))
    APFloat(scale).convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
  return !loses;
}

/// A cap divides by what it multiplies by in the end: of that, as fp32 has it, 1 is left.
double withoutRounding(double factor) { return std::abs(factor - 1) < 1e-6 ? 1 : factor; }

} // namespace

Value logitsBefore(Operation *op) {
  if (leavesClasses(op) || isa<TanhOp>(op))
    return op->getOperand(0);
  if (std::optional<Scaled> scaled = scaledBy(op))
    return scaled->from;
  std::optional<unsigned> at = logitsOfSum(op);
  return at ? op->getOperand(*at) : Value();
}

std::optional<HeadOperands> HeadOperands::of(MatmulOp layer, ArrayRef<Operation *> between) {
  HeadOperands head{layer, llvm::to_vector(between)};
  if (shapeOf(layer.getRhs()).size() != 2 || layer.getTransLhs() ||
      !(head.element().isF32() || isNarrow(head.element())))
    return std::nullopt;
  if (layer.getBias())
    head.biases.push_back({layer.getBias(), 1});
  auto scaleAll = [&](double factor) {
    head.rowsFactor *= factor;
    for (Bias &bias : head.biases)
      bias.factor *= factor;
  };
  for (Operation *op : between) {
    std::optional<unsigned> logitsAt = logitsOfSum(op);
    std::optional<Scaled> scaled = scaledBy(op);
    if (isa<TanhOp>(op) ? head.cap != 0 : logitsAt && (head.cap != 0 || elementOf(op->getResult(0)) != head.element()))
      return std::nullopt;
    if (isa<TanhOp>(op))
      head.cap = 1;
    else if (logitsAt)
      head.biases.push_back({op->getOperand(1 - *logitsAt), 1});
    else if (scaled && head.cap != 0)
      head.cap *= scaled->factor;
    else if (scaled)
      scaleAll(scaled->factor);
  }
  if (head.cap != 0 && !shapes::isLogitCap(head.cap))
    return std::nullopt;
  if (head.cap > 0) {
    scaleAll(head.cap);
    head.rowsFactor = withoutRounding(head.rowsFactor);
    for (Bias &bias : head.biases)
      bias.factor = withoutRounding(bias.factor);
  }
  auto isServed = [&](double factor) {
    // Larger than logits are, rows might be infinite in fp16; smaller, they would lose bits.
    const bool keepsRange = !head.element().isF16() || (std::abs(factor) <= 1 && std::abs(factor) >= 0x1p-10);
    return keepsRange && isExactIn(head.element(), factor);
  };
  return isServed(head.rowsFactor) && llvm::all_of(head.biases, [&](const Bias &bias) { return isServed(bias.factor); })
             ? std::optional(head)
             : std::nullopt;
}

Value HeadOperands::buildRows(TensorBuilder &on) {
  Value rows = layer.getLhs();
  const int64_t width = shapeOf(rows).back();
  for (Operation *op : between) {
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      Shape shape(reshape.getShape());
      shape.back() = width;
      rows = on.reshape(rows, shape);
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      Shape sizes(slice.getSizes());
      sizes.back() = width;
      rows = on.make<SliceOp>(rows, slice.getOffsets(), sizes, slice.getStrides());
    }
  }
  rows = on.reshape(rows, {tensorOf(rows).getNumElements() / std::max<int64_t>(1, width), width});
  return rowsFactor == 1 ? rows : on.scale(rows, rowsFactor);
}

Value HeadOperands::buildBias(TensorBuilder &on) {
  Value sum;
  for (const Bias &bias : biases) {
    Value row = on.reshape(bias.row, {classes()});
    if (bias.factor != 1)
      row = on.scale(row, bias.factor);
    sum = sum ? on.add(sum, row) : row;
  }
  return sum;
}

} // namespace zc::graph
