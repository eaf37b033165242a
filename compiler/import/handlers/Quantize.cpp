//===- Quantize.cpp - integers that stand for reals, and products of integers ----===//
//
// As plain arithmetic. Rounding has no gradient, so a quantized value is a constant to training; but where it is made a
// real again at once, the pair is what torch writes for its fake quantization, whose gradient goes straight through.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// A scale or zero point for each element of `x`: one for all, one per index of `axis`, or one per block of it.
Value perElement(Node &node, Value parameter, Value x) {
  int64_t rank = rankOf(parameter), block = node.intAttr("block_size", 0);
  if (rank == 0 || (rank == 1 && dimsOf(parameter)[0] == 1 && block == 0))
    return node.reshape(parameter, {});
  int64_t axis = node.axis(node.intAttr("axis", 1), rankOf(x));
  if (node.failed())
    return {};
  Dims shape(rankOf(x), 1);
  if (rank == 1) {
    shape[axis] = dimsOf(parameter)[0];
    return node.reshape(parameter, shape);
  }
  if (block < 1 || rank != rankOf(x)) {
    node.invalid("scale has shape " + shapeText(dimsOf(parameter)) + " and block_size is " + std::to_string(block));
    return {};
  }
  // [.., blocks, ..] -> [.., blocks, 1, ..] -> [.., blocks, block, ..] -> as long as x
  Dims split(dimsOf(parameter)), repeated, joined(dimsOf(parameter));
  split.insert(split.begin() + axis + 1, 1);
  repeated = split;
  repeated[axis + 1] = block;
  joined[axis] *= block;
  Value blocks = node.reshape(node.expand(node.reshape(parameter, split), repeated), joined);
  if (!node.failed() && dimsOf(blocks)[axis] < dimsOf(x)[axis])
    node.invalid("blocks cover " + std::to_string(joined[axis]) + " of " + std::to_string(dimsOf(x)[axis]));
  return node.slice(blocks, axis, 0, dimsOf(x)[axis]);
}

struct Bounds {
  double low, high;
};
std::optional<Bounds> boundsOf(mlir::Type element) {
  auto integer = llvm::dyn_cast<mlir::IntegerType>(element);
  if (!integer || integer.getWidth() > 16 || integer.getWidth() < 8)
    return std::nullopt;
  double steps = static_cast<double>(int64_t(1) << integer.getWidth());
  return integer.isUnsigned() ? Bounds{0, steps - 1} : Bounds{-steps / 2, steps / 2 - 1};
}

Expr saturate(Expr x, Bounds bounds) { return x.apply<MaxOp>(bounds.low).apply<MinOp>(bounds.high); }

/// What attribute output_dtype names; `fallback` where it is not given, or 0.
mlir::Type outputType(Node &node, mlir::Type fallback) {
  int64_t to = node.intAttr("output_dtype", 0);
  auto dtype = dtypeOfOnnx(to > 0 && to < 256 ? static_cast<int32_t>(to) : 0);
  if (to != 0 && !dtype)
    node.unsupported("to element type " + onnxTypeName(static_cast<int32_t>(to)));
  return dtype ? typeOf(*dtype, node.loc.getContext()) : fallback;
}

void quantizeLinear(Node &node) {
  Expr x(node, node.input(0)), scale(node, perElement(node, node.input(1), x));
  mlir::Type u8 = mlir::IntegerType::get(node.loc.getContext(), 8, mlir::IntegerType::Unsigned);
  mlir::Type target = node.has(2) ? elementOf(node.input(2)) : outputType(node, u8);
  auto bounds = boundsOf(target);
  if (!bounds && !node.failed())
    node.unsupported("to anything but 8 and 16 bit integers");
  if (node.failed())
    return;
  mlir::Type f32 = mlir::Float32Type::get(node.loc.getContext()), f64 = mlir::Float64Type::get(node.loc.getContext());
  // Quotients of integers are rounded once.
  Expr steps = isFloat(x) ? (x / scale.cast(x.element())).cast(f32).apply<RoundOp>()
                          : (x.cast(f64) / scale.cast(f64)).apply<RoundOp>().cast(f32);
  if (node.has(2))
    steps = steps + Expr(node, perElement(node, node.input(2), x)).cast(f32);
  node.set(saturate(steps, *bounds).cast(target));
}

/// The steps of a quantized value that quantizeLinear has just made, with the gradient of what was rounded wherever
/// that was not cut off. Scales get none. Null for any other value.
Expr straightThrough(Node &node, Value quantized) {
  Expr none(node, {});
  auto bounds = boundsOf(elementOf(quantized));
  auto cast = quantized.getDefiningOp<CastOp>();
  auto least = cast ? cast.getOperand().getDefiningOp<MinOp>() : MinOp();
  auto most = least ? least.getLhs().getDefiningOp<MaxOp>() : MaxOp();
  if (!bounds || !most)
    return none;
  Expr steps(node, most.getLhs());
  auto shifted = most.getLhs().getDefiningOp<AddOp>();
  auto round = (shifted ? shifted.getLhs() : most.getLhs()).getDefiningOp<RoundOp>();
  if (!round)
    return none;
  Value quotient = round.getOperand();
  if (auto widened = quotient.getDefiningOp<CastOp>())
    quotient = widened.getOperand();
  auto divided = quotient.getDefiningOp<DivOp>();
  if (!divided)
    return none;
  Expr whole = (Expr(node, divided.getLhs()) / Expr(node, divided.getRhs()).detached()).cast(steps.element());
  if (shifted)
    whole = whole + Expr(node, shifted.getRhs());
  Expr cut = Expr(node, cast.getOperand()).detached();
  Expr isInside = steps.apply<EqualOp>(cut);
  return (whole + (cut - whole).detached()).where(isInside, cut);
}

void dequantizeLinear(Node &node) {
  Expr x(node, node.input(0)), scale(node, perElement(node, node.input(1), x));
  mlir::Type f32 = mlir::Float32Type::get(node.loc.getContext());
  Expr steps = x.cast(f32);
  if (Expr through = straightThrough(node, x); through && !node.failed()) {
    steps = through;
    scale = scale.detached();
  }
  if (node.has(2))
    steps = steps - Expr(node, perElement(node, node.input(2), x)).cast(f32);
  node.set((steps * scale.cast(f32)).cast(outputType(node, elementOf(node.input(1)))));
}

/// To u8, with scale and zero point from the extrema and 0; zeros alone have a range of 1, as in ONNX's reference.
void dynamicQuantizeLinear(Node &node) {
  Expr x(node, node.input(0));
  Dims all;
  for (int64_t d = 0; d < rankOf(x); ++d)
    all.push_back(d);
  mlir::Type u8 = mlir::IntegerType::get(node.loc.getContext(), 8, mlir::IntegerType::Unsigned);
  Expr low = Expr(node, node.make<ReduceMinOp>({x}, node.attrs().ints("axes", all))).apply<MinOp>(0.0);
  Expr high = Expr(node, node.make<ReduceMaxOp>({x}, node.attrs().ints("axes", all))).apply<MaxOp>(0.0);
  Expr range = high - low, scale = range.number(1).where(range.apply<EqualOp>(0.0), range) / 255.0;
  Expr zero = saturate((0.0 - low / scale), {0, 255}).apply<RoundOp>();
  node.set(0, saturate((x / scale).apply<RoundOp>() + zero, {0, 255}).cast(u8));
  node.set(1, scale);
  node.set(2, zero.cast(u8));
}

enum class Factor { left, right, product };

/// A scale or zero point of a factor as f64: one for all, one per row of the left factor, one per column of the right.
Expr ofFactor(Node &node, unsigned input, Factor factor) {
  Expr value = Expr(node, node.input(input)).cast(mlir::Float64Type::get(node.loc.getContext()));
  if (rankOf(value) != 1)
    return value;
  if (dimsOf(value)[0] == 1)
    return value.reshape({});
  if (factor == Factor::product)
    node.unsupported("with " + std::to_string(dimsOf(value)[0]) + " scales or zero points of the result");
  return factor == Factor::left ? value.reshape({dimsOf(value)[0], 1}) : value;
}

/// (a - zero point) as f64, in which sums of such products are exact.
Expr centred(Node &node, unsigned input, unsigned zeroPoint, Factor factor) {
  Expr x = Expr(node, node.input(input)).cast(mlir::Float64Type::get(node.loc.getContext()));
  return node.has(zeroPoint) ? x - ofFactor(node, zeroPoint, factor) : x;
}

Value integerProduct(Node &node, Expr a, Expr b) {
  if (node.failed())
    return {};
  if (rankOf(a) < 2 || rankOf(b) < 2) {
    node.unsupported("of vectors");
    return {};
  }
  return node.make<MatmulOp>({a, b});
}

void matMulInteger(Node &node) {
  Value y = integerProduct(node, centred(node, 0, 2, Factor::left), centred(node, 1, 3, Factor::right));
  if (y)
    node.set(node.cast(y, mlir::IntegerType::get(node.loc.getContext(), 32)));
}

/// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of the result.
void qLinearMatMul(Node &node) {
  Expr y(node, integerProduct(node, centred(node, 0, 2, Factor::left), centred(node, 3, 5, Factor::right)));
  Expr scale = ofFactor(node, 1, Factor::left) * ofFactor(node, 4, Factor::right) / ofFactor(node, 6, Factor::product);
  auto bounds = boundsOf(elementOf(node.input(7)));
  if (!bounds && !node.failed())
    node.unsupported("to anything but 8 bit integers");
  if (node.failed())
    return;
  Expr steps = (y * scale).apply<RoundOp>() + ofFactor(node, 7, Factor::product);
  node.set(saturate(steps, *bounds).cast(elementOf(node.input(7))));
}

} // namespace

void zc::importer::addQuantizeHandlers(HandlerTable &table) {
  table.add("QuantizeLinear", 10, 2, 3, quantizeLinear);
  table.add("DequantizeLinear", 10, 2, 3, dequantizeLinear);
  table.add("DynamicQuantizeLinear", 11, 1, 1, dynamicQuantizeLinear);
  table.add("MatMulInteger", 10, 2, 4, matMulInteger);
  table.add("QLinearMatMul", 10, 8, 8, qLinearMatMul);
  table.limit("", "QuantizeLinear", "to 8 and 16 bit integers");
  table.limit("", "DequantizeLinear", "from 8 to 32 bit integers");
  table.limit("", "MatMulInteger", "no vectors");
  table.limit("", "QLinearMatMul", "no vectors; one scale of the result");
}
