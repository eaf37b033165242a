//===- Activations.cpp - activations with a kink or of several parts -------------===//
//
// A kink is a selection between the pieces, and each piece is finite where it is not taken: the gradient of what is not
// selected is 0 times a number, never NaN. At the kink itself the piece for x <= 0 has the gradient, as in torch.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// Formulas over one operand.
class On {
public:
  explicit On(Node &node) : node(node), x(node.input(0)) {}
  Value number(double value) { return node.scalar(value, elementOf(x)); }
  Value mul(Value a, double factor) { return factor == 1 ? a : node.make<MulOp>({a, number(factor)}); }
  Value add(Value a, double term) { return term == 0 ? a : node.make<AddOp>({a, number(term)}); }
  Value select(Value condition, Value a, Value b) { return node.make<SelectOp>({condition, a, b}); }
  Value isAbove(double limit) { return node.make<LessOp>({number(limit), x}); }
  /// x where it is not positive, else 0.
  Value negativePart() { return select(isAbove(0), number(0), x); }

  Node &node;
  Value x;
};

void leakyRelu(Node &node) {
  On on(node);
  node.set(on.select(on.isAbove(0), on.x, on.mul(on.x, node.floatAttr("alpha", 0.01))));
}

void prelu(Node &node) {
  On on(node);
  node.set(on.select(on.isAbove(0), on.x, node.make<MulOp>({on.x, node.input(1)})));
}

/// scale * (x where positive, else alpha (e^(x / divisor) - 1))
void exponentialUnit(Node &node, double scale, double alpha, double divisor) {
  On on(node);
  Value part = node.make<Expm1Op>({on.mul(on.negativePart(), 1 / divisor)});
  node.set(on.mul(on.select(on.isAbove(0), on.x, on.mul(part, alpha)), scale));
}
void elu(Node &node) { exponentialUnit(node, 1, node.floatAttr("alpha", 1), 1); }
void selu(Node &node) {
  exponentialUnit(node, node.floatAttr("gamma", 1.05070102214813232421875),
                  node.floatAttr("alpha", 1.67326319217681884765625), 1);
}
void celu(Node &node) {
  double alpha = node.floatAttr("alpha", 1);
  if (alpha == 0)
    return node.invalid("alpha is 0");
  exponentialUnit(node, 1, alpha, alpha);
}

void softsign(Node &node) {
  On on(node);
  node.set(node.make<DivOp>({on.x, on.add(node.make<AbsOp>({on.x}), 1)}));
}

Expr hardSigmoidOf(Node &node, double alpha, double beta) {
  return saturate(Expr(node, node.input(0)) * alpha + beta, 0, 1);
}
void hardSigmoid(Node &node) {
  node.set(hardSigmoidOf(node, node.floatAttr("alpha", 0.2f), node.floatAttr("beta", 0.5)));
}
void hardSwish(Node &node) { node.set(Expr(node, node.input(0)) * hardSigmoidOf(node, 1.0 / 6, 0.5)); }

void mish(Node &node) {
  Value x = node.input(0);
  node.set(node.make<MulOp>({x, node.make<TanhOp>({node.make<SoftplusOp>({x})})}));
}

void thresholdedRelu(Node &node) {
  On on(node);
  node.set(on.select(on.isAbove(node.floatAttr("alpha", 1)), on.x, on.number(0)));
}

void shrink(Node &node) {
  On on(node);
  double limit = node.floatAttr("lambd", 0.5), bias = node.floatAttr("bias", 0);
  Value below = node.make<LessOp>({on.x, on.number(-limit)});
  node.set(on.select(below, on.add(on.x, bias), on.select(on.isAbove(limit), on.add(on.x, -bias), on.number(0))));
}

void softplus(Node &node) { node.set(node.make<SoftplusOp>({node.input(0)})); }

} // namespace

void zc::importer::addActivationHandlers(HandlerTable &table) {
  auto unaries = [&](llvm::StringRef op, int64_t since, Handler handler) { table.add(op, since, 1, 1, handler); };
  unaries("LeakyRelu", 6, leakyRelu);
  table.add("PRelu", 7, 2, 2, prelu);
  unaries("Elu", 6, elu);
  unaries("Selu", 6, selu);
  unaries("Celu", 12, celu);
  unaries("Softplus", 1, softplus);
  unaries("Softsign", 1, softsign);
  unaries("HardSigmoid", 6, hardSigmoid);
  unaries("HardSwish", 14, hardSwish);
  unaries("Mish", 18, mish);
  unaries("ThresholdedRelu", 10, thresholdedRelu);
  unaries("Shrink", 9, shrink);
}
