//===- Elementwise.cpp - one output element per index -------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include <limits>
#include <optional>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

template <typename OpT> void unary(Node &node) { node.set(node.make<OpT>({node.input(0)})); }
template <typename OpT> void binary(Node &node) { node.set(node.make<OpT>({node.input(0), node.input(1)})); }
template <typename OpT> void swapped(Node &node) { node.set(node.make<OpT>({node.input(1), node.input(0)})); }

/// Sum, Min, Max: any number of operands, from left to right.
template <typename OpT> Value chain(Node &node) {
  Value result = node.input(0);
  for (unsigned i = 1; i < node.numInputs(); ++i)
    result = node.make<OpT>({result, node.input(i)});
  return result;
}
template <typename OpT> void variadic(Node &node) { node.set(chain<OpT>(node)); }

/// torch.export writes clamp, clamp_min and clamp_max with tensors as Max and Min; what it was stands in the trace
/// beside the node. At a bound x has all of the derivative, of which a maximum would give the bound half.
bool isTracedClamp(Node &node) { return node.numInputs() == 2 && node.tracedCall("aten.clamp"); }
void minimum(Node &node) {
  if (!isTracedClamp(node))
    return variadic<MinOp>(node);
  node.set(clamp(Expr(node, node.input(0)), Expr(node, {}), Expr(node, node.input(1))));
}
void maximum(Node &node) {
  if (!isTracedClamp(node))
    return variadic<MaxOp>(node);
  node.set(clamp(Expr(node, node.input(0)), Expr(node, node.input(1)), Expr(node, {})));
}

void mean(Node &node) {
  Value sum = chain<AddOp>(node);
  node.set(node.make<DivOp>({sum, node.scalar(node.numInputs(), elementOf(node.input(0)))}));
}

/// Base and exponent may differ in type; the result has the base's. An integer to a real power is computed in doubles,
/// which hold what the exponent's type may round.
void pow(Node &node) {
  Expr base(node, node.input(0)), exponent(node, node.input(1));
  if (isFloat(exponent) && !isFloat(base)) {
    Expr wide = real(node, base);
    return node.set(wide.apply<PowOp>(exponent.cast(wide.element())).cast(base.element()));
  }
  node.set(base.apply<PowOp>(exponent.cast(base.element())));
}

/// fmod = 1 takes the dividend's sign: that of a on |a| mod |b|, which is exact. Of floats it is chosen by a selection,
/// so that the derivative by a is 1 at 0 too, as in torch.
void mod(Node &node) {
  if (node.intAttr("fmod", 0) == 0)
    return binary<ModOp>(node);
  Expr a(node, node.input(0)), b(node, node.input(1)), divisor = b.apply<AbsOp>();
  if (!isFloat(a))
    return node.set(a.apply<SignOp>() * a.apply<AbsOp>().apply<ModOp>(divisor));
  Expr negative = -((-a).apply<ModOp>(divisor));
  node.set(negative.where(a.apply<LessOp>(0.0), a.apply<ModOp>(divisor)));
}

void isInf(Node &node) {
  Expr x(node, node.input(0));
  bool positive = node.intAttr("detect_positive", 1) != 0, negative = node.intAttr("detect_negative", 1) != 0;
  double infinity = std::numeric_limits<double>::infinity();
  if (positive && negative)
    return node.set(x.apply<AbsOp>().apply<EqualOp>(infinity));
  if (positive || negative)
    return node.set(x.apply<EqualOp>(positive ? infinity : -infinity));
  node.set(x.apply<LessOp>(x)); // never
}

void bitShift(Node &node) {
  std::string direction = node.stringAttr("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return node.invalid("direction is '" + direction + "'");
  direction == "LEFT" ? binary<ShiftLeftOp>(node) : binary<ShiftRightOp>(node);
}

void bitCast(Node &node) {
  int64_t to = node.intAttr("to", 0);
  auto dtype = to >= 0 && to < 256 ? dtypeOfOnnx(static_cast<int32_t>(to)) : std::nullopt;
  if (!dtype)
    return node.unsupported("to element type " + onnxTypeName(static_cast<int32_t>(to)));
  node.set(node.make<BitcastOp>({node.input(0)}, node.attrs().type("to", typeOf(*dtype, node.loc.getContext()))));
}

/// Integers have no kernel of their own.
void relu(Node &node) {
  Expr x(node, node.input(0));
  node.set(isFloat(x) ? x.apply<ReluOp>() : x.apply<MaxOp>(0.0));
}

/// A bool mask of torch's scaled_dot_product_attention hides with -inf, and rows that it hides as a whole are zeros.
/// torch.export writes the lowest finite number, of which such rows would be averages.
bool isTracedMask(Node &node, Value hidden) {
  const HostTensor *number = node.constantOf(hidden);
  return number && number->isFloat() && number->numElements() == 1 && number->floatAt(0) <= -65504 &&
         node.tracedCall("aten.scaled_dot_product_attention");
}

void where(Node &node) {
  Value hidden = node.input(2);
  if (isTracedMask(node, hidden))
    hidden = Expr(node, hidden).number(-std::numeric_limits<double>::infinity());
  node.set(node.make<SelectOp>({node.input(0), node.input(1), hidden}));
}

void gelu(Node &node) {
  std::string form = node.stringAttr("approximate", "none");
  if (form != "none" && form != "tanh")
    return node.invalid("approximate is '" + form + "'");
  node.set(node.make<GeluOp>({node.input(0)}, node.attrs().flag("tanh", form == "tanh")));
}

/// x * sigmoid(alpha x)
void swish(Node &node) {
  double alpha = node.floatAttr("alpha", 1.0);
  Value x = node.input(0);
  if (alpha == 1.0)
    return node.set(node.make<SiluOp>({x}));
  Value scaled = node.make<MulOp>({x, node.scalar(alpha, elementOf(x))});
  node.set(node.make<MulOp>({x, node.make<SigmoidOp>({scaled})}));
}

/// Of a bound that is one known number.
std::optional<double> boundOf(Node &node, Value bound) {
  const HostTensor *number = bound ? node.constantOf(bound) : nullptr;
  return number && number->isFloat() && number->stored() == 1 ? std::optional(number->floatAt(0)) : std::nullopt;
}
/// The derivative of torch's hardtanh is 0 at its bounds too, and so is that of relu6, which needs no trace to be
/// known.
void clip(Node &node) {
  Expr x(node, node.input(0)), low(node, node.input(1)), high(node, node.input(2));
  auto least = boundOf(node, low), most = boundOf(node, high);
  bool saturates = least && most && ((*least == 0 && *most == 6) || node.tracedCall("aten.hardtanh"));
  node.set(saturates ? saturate(x, *least, *most) : clamp(x, low, high));
}
/// Until opset 10 the bounds are attributes.
void clipAttributes(Node &node) {
  Expr x(node, node.input(0)), none(node, {});
  double low = node.floatAttr("min", 0), high = node.floatAttr("max", 0);
  bool hasLow = node.hasAttr("min"), hasHigh = node.hasAttr("max");
  if (isFloat(x) && hasLow && hasHigh && low == 0 && high == 6)
    return node.set(saturate(x, 0, 6));
  node.set(clamp(x, hasLow ? x.number(low) : none, hasHigh ? x.number(high) : none));
}

void cast(Node &node) {
  if (!node.hasAttr("to"))
    return node.invalid("attribute 'to' is missing");
  int64_t to = node.intAttr("to", 0);
  auto dtype = to >= 0 && to < 256 ? dtypeOfOnnx(static_cast<int32_t>(to)) : std::nullopt;
  if (!dtype)
    return node.unsupported("to element type " + onnxTypeName(static_cast<int32_t>(to)));
  Value y = node.cast(node.input(0), typeOf(*dtype, node.loc.getContext()));
  node.set(y);
  if (y == node.input(0))
    node.standFor(0, 0);
}
void castLike(Node &node) { node.set(node.cast(node.input(0), elementOf(node.input(1)))); }

struct Row {
  const char *op;
  int64_t since;
  Handler handler;
};
constexpr Row unaries[] = {
    {"Neg", 6, unary<NegOp>},
    {"Abs", 6, unary<AbsOp>},
    {"Exp", 6, unary<ExpOp>},
    {"Log", 6, unary<LogOp>},
    {"Sqrt", 6, unary<SqrtOp>},
    {"Reciprocal", 6, unary<ReciprocalOp>},
    {"Sin", 7, unary<SinOp>},
    {"Cos", 7, unary<CosOp>},
    {"Tan", 7, unary<TanOp>},
    {"Asin", 7, unary<AsinOp>},
    {"Acos", 7, unary<AcosOp>},
    {"Atan", 7, unary<AtanOp>},
    {"Sinh", 9, unary<SinhOp>},
    {"Cosh", 9, unary<CoshOp>},
    {"Asinh", 9, unary<AsinhOp>},
    {"Acosh", 9, unary<AcoshOp>},
    {"Atanh", 9, unary<AtanhOp>},
    {"IsInf", 10, isInf},
    {"BitwiseNot", 18, unary<NotOp>},
    {"BitCast", 26, bitCast},
    {"Tanh", 6, unary<TanhOp>},
    {"Sigmoid", 6, unary<SigmoidOp>},
    {"Erf", 9, unary<ErfOp>},
    {"Relu", 6, relu},
    {"Floor", 6, unary<FloorOp>},
    {"Ceil", 6, unary<CeilOp>},
    {"Round", 11, unary<RoundOp>},
    {"Sign", 9, unary<SignOp>},
    {"Not", 1, unary<NotOp>},
    {"IsNaN", 9, unary<IsNanOp>},
    {"Gelu", 20, gelu},
    {"Swish", 24, swish},
    {"Cast", 6, cast},
};
// Until opset 6 broadcasting is asked for by attributes; those rows are absent.
constexpr Row binaries[] = {
    {"Add", 7, binary<AddOp>},
    {"Sub", 7, binary<SubOp>},
    {"Mul", 7, binary<MulOp>},
    {"Div", 7, binary<DivOp>},
    {"Pow", 7, pow},
    {"Mod", 10, mod},
    {"BitwiseAnd", 18, binary<AndOp>},
    {"BitwiseOr", 18, binary<OrOp>},
    {"BitwiseXor", 18, binary<XorOp>},
    {"BitShift", 11, bitShift},
    {"Equal", 7, binary<EqualOp>},
    {"Less", 7, binary<LessOp>},
    {"LessOrEqual", 12, binary<LessEqualOp>},
    {"Greater", 7, swapped<LessOp>},
    {"GreaterOrEqual", 12, swapped<LessEqualOp>},
    {"And", 7, binary<AndOp>},
    {"Or", 7, binary<OrOp>},
    {"Xor", 7, binary<XorOp>},
};

} // namespace

void zc::importer::addElementwiseHandlers(HandlerTable &table) {
  for (const Row &row : unaries)
    table.add(row.op, row.since, 1, 1, row.handler);
  for (const Row &row : binaries)
    table.add(row.op, row.since, 2, 2, row.handler);
  table.add("CastLike", 15, 2, 2, castLike);
  table.add("Clip", 6, 1, 1, clipAttributes);
  table.add("Clip", 11, 1, 3, clip);
  table.add("Where", 9, 3, 3, where);
  table.add("Min", 6, 1, -1, minimum);
  table.add("Max", 6, 1, -1, maximum);
  table.add("Sum", 6, 1, -1, variadic<AddOp>);
  table.add("Mean", 6, 1, -1, mean);
}
