//===- GradientsElementwise.cpp - derivatives of elementwise ops --------------===//
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

//===-- one operand ----------------------------------------------------------===//

/// `EXPRESSION` in terms of the gradient g, the operand x and the result y, with ops of `on`.
#define UNARY_GRADIENT(OpTy, EXPRESSION)                                                                               \
  ZC_GRADIENT(OpTy) {                                                                                                  \
    GradientBuilder on(builder, *this);                                                                                \
    [[maybe_unused]] Value g = resultGrads[0], x = getInput(), y = getResult();                                        \
    operandGrads[0] = EXPRESSION;                                                                                      \
    return success();                                                                                                  \
  }

UNARY_GRADIENT(NegOp, on.neg(g))
UNARY_GRADIENT(AbsOp, on.mul(g, on.make<SignOp>(x)))
UNARY_GRADIENT(ExpOp, on.mul(g, y))
UNARY_GRADIENT(LogOp, on.div(g, x))
UNARY_GRADIENT(SqrtOp, on.div(on.scale(g, 0.5), y))
UNARY_GRADIENT(ReciprocalOp, on.neg(on.mul(g, on.mul(y, y))))
UNARY_GRADIENT(SinOp, on.mul(g, on.make<CosOp>(x)))
UNARY_GRADIENT(CosOp, on.neg(on.mul(g, on.make<SinOp>(x))))
UNARY_GRADIENT(TanOp, on.mul(g, on.add(on.scalar(1, y), on.mul(y, y))))
/// sqrt(1 - x^2) and the like.
static Value rootOf(GradientBuilder &on, Value x, double sign, double constant) {
  return on.make<SqrtOp>(on.add(on.scalar(constant, x), on.scale(on.mul(x, x), sign)));
}
UNARY_GRADIENT(AsinOp, on.div(g, rootOf(on, x, -1, 1)))
UNARY_GRADIENT(AcosOp, on.neg(on.div(g, rootOf(on, x, -1, 1))))
UNARY_GRADIENT(AtanOp, on.div(g, on.add(on.scalar(1, x), on.mul(x, x))))
UNARY_GRADIENT(SinhOp, on.mul(g, on.make<CoshOp>(x)))
UNARY_GRADIENT(CoshOp, on.mul(g, on.make<SinhOp>(x)))
UNARY_GRADIENT(AsinhOp, on.div(g, rootOf(on, x, 1, 1)))
UNARY_GRADIENT(AcoshOp, on.div(g, rootOf(on, x, 1, -1)))
UNARY_GRADIENT(AtanhOp, on.div(g, on.sub(on.scalar(1, x), on.mul(x, x))))
UNARY_GRADIENT(TanhOp, on.mul(g, on.sub(on.scalar(1, y), on.mul(y, y))))
UNARY_GRADIENT(SigmoidOp, on.mul(g, on.mul(y, on.sub(on.scalar(1, y), y))))
UNARY_GRADIENT(ErfOp, on.mul(on.scale(g, 1.1283791670955126 /* 2 / sqrt pi */), on.make<ExpOp>(on.neg(on.mul(x, x)))))
// By its result, which the next product needs too: what it was computed from need not be kept.
UNARY_GRADIENT(ReluOp, on.select(on.less(on.scalar(0, y), y), g, on.scalar(0, g)))
UNARY_GRADIENT(Expm1Op, on.mul(g, on.add(y, on.scalar(1, y))))
UNARY_GRADIENT(SoftplusOp, on.mul(g, on.make<SigmoidOp>(x)))
UNARY_GRADIENT(SiluOp, on.make<SiluGradOp>(g, x))
UNARY_GRADIENT(GeluOp, on.make<GeluGradOp>(g, x, getTanh()))
UNARY_GRADIENT(CastOp, isa<FloatType>(elementOf(x)) ? on.make<CastOp>(g, TypeAttr::get(elementOf(x))) : Value())

//===-- two operands ---------------------------------------------------------===//

/// Expressions for both operands in terms of g, a, b and the result y, before un-broadcasting.
#define BINARY_GRADIENT(OpTy, LHS, RHS)                                                                                \
  ZC_GRADIENT(OpTy) {                                                                                                  \
    GradientBuilder on(builder, *this);                                                                                \
    [[maybe_unused]] Value g = resultGrads[0], a = getLhs(), b = getRhs(), y = getResult();                            \
    if (wanted[0])                                                                                                     \
      operandGrads[0] = on.unbroadcast(LHS, a);                                                                        \
    if (wanted[1])                                                                                                     \
      operandGrads[1] = on.unbroadcast(RHS, b);                                                                        \
    return success();                                                                                                  \
  }

BINARY_GRADIENT(AddOp, g, g)
BINARY_GRADIENT(SubOp, g, on.neg(g))
BINARY_GRADIENT(MulOp, on.mul(g, b), on.mul(g, a))
BINARY_GRADIENT(DivOp, on.div(g, b), on.neg(on.div(on.mul(g, y), b)))
// a - b floor(a / b)
BINARY_GRADIENT(ModOp, g, on.neg(on.mul(g, on.make<FloorOp>(on.div(a, b)))))

/// The share of g of the operand for which `wins` holds; equal operands get half each, as in torch.
static Value extremumShare(GradientBuilder &on, Value g, Value a, Value b, Value wins) {
  Value loser = on.select(on.make<EqualOp>(a, b), on.scale(g, 0.5), on.scalar(0, g));
  return on.select(wins, g, loser);
}
BINARY_GRADIENT(MinOp, extremumShare(on, g, a, b, on.less(a, b)), extremumShare(on, g, a, b, on.less(b, a)))
BINARY_GRADIENT(MaxOp, extremumShare(on, g, a, b, on.less(b, a)), extremumShare(on, g, a, b, on.less(a, b)))

/// g * p * x^(p-1); 0 where p is 0, also at x = 0. Squares and cubes, the common case, need no power.
static Value powBaseGradient(GradientBuilder &on, Value g, Value x, Value p) {
  DenseElementsAttr constant;
  if (auto op = p.getDefiningOp<ConstantOp>())
    constant = dyn_cast<DenseElementsAttr>(op.getValue());
  if (constant && constant.isSplat()) {
    double exponent = constant.getSplatValue<APFloat>().convertToDouble();
    if (exponent == 1)
      return g;
    if (exponent == 2)
      return on.mul(on.scale(g, 2), x);
    if (exponent == 3)
      return on.mul(on.scale(g, 3), on.mul(x, x));
  }
  Value zero = on.scalar(0, p);
  Value slope = on.mul(p, on.make<PowOp>(x, on.sub(p, on.scalar(1, p))));
  return on.mul(g, on.select(on.make<EqualOp>(p, zero), zero, slope));
}

/// g * y * ln x; 0 where x is not positive, where the derivative is not real.
static Value powExponentGradient(GradientBuilder &on, Value g, Value x, Value y) {
  Value zero = on.scalar(0, x);
  return on.mul(g, on.select(on.less(zero, x), on.mul(y, on.make<LogOp>(x)), zero));
}

ZC_GRADIENT(PowOp) {
  // The exponent may be an integer constant in the model; here both are of one type, and floats where wanted.
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0];
  if (wanted[0])
    operandGrads[0] = on.unbroadcast(powBaseGradient(on, g, getLhs(), getRhs()), shapeOf(getLhs()));
  if (wanted[1])
    operandGrads[1] = on.unbroadcast(powExponentGradient(on, g, getLhs(), getResult()), shapeOf(getRhs()));
  return success();
}

ZC_GRADIENT(SelectOp) {
  GradientBuilder on(builder, *this);
  Value g = resultGrads[0], zero = on.scalar(0, g);
  if (wanted[1])
    operandGrads[1] = on.unbroadcast(on.select(getCondition(), g, zero), getLhs());
  if (wanted[2])
    operandGrads[2] = on.unbroadcast(on.select(getCondition(), zero, g), getRhs());
  return success();
}
