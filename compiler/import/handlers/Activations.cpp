//===- Activations.cpp - activations with a kink or of several parts -------------===//
//
// A kink is a selection between the pieces, and each piece is finite where it is not taken: the gradient of what is not
// selected is 0 times a number, never NaN. At the kink itself the piece for x <= 0 has the gradient, as in torch.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Activations.h"
#include "compiler/import/handlers/Handlers.h"

#include <limits>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

Expr isAbove(Expr x, double limit) { return x.number(limit).apply<LessOp>(x); }

Expr leaky(Expr x, double alpha, double = 0) { return x.where(isAbove(x, 0), x * alpha); }
void leakyRelu(Node &node) { node.set(leaky(Expr(node, node.input(0)), node.floatAttr("alpha", 0.01))); }

void prelu(Node &node) {
  node.noteWeight(1, "slope of PRelu");
  Expr x(node, node.input(0));
  node.set(x.where(isAbove(x, 0), x.apply<MulOp>(node.input(1))));
}

Expr times(Expr x, double factor) { return factor == 1 ? x : x * factor; }

/// scale * (x where positive, else alpha (e^(x / divisor) - 1))
Expr exponentialUnit(Expr x, double scale, double alpha, double divisor) {
  Expr negative = x.number(0).where(isAbove(x, 0), x);
  return times(x.where(isAbove(x, 0), times(times(negative, 1 / divisor).apply<Expm1Op>(), alpha)), scale);
}
Expr eluOf(Expr x, double alpha, double = 0) { return exponentialUnit(x, 1, alpha, 1); }
void elu(Node &node) { node.set(eluOf(Expr(node, node.input(0)), node.floatAttr("alpha", 1))); }
void selu(Node &node) {
  node.set(exponentialUnit(Expr(node, node.input(0)), node.floatAttr("gamma", 1.05070102214813232421875),
                           node.floatAttr("alpha", 1.67326319217681884765625), 1));
}
void celu(Node &node) {
  double alpha = node.floatAttr("alpha", 1);
  if (alpha == 0)
    return node.invalid("alpha is 0");
  node.set(exponentialUnit(Expr(node, node.input(0)), 1, alpha, alpha));
}

Expr softsignOf(Expr x, double = 0, double = 0) { return x / (x.apply<AbsOp>() + 1); }
void softsign(Node &node) { node.set(softsignOf(Expr(node, node.input(0)))); }

Expr hardSigmoidOf(Expr x, double alpha, double beta) { return saturate(x * alpha + beta, 0, 1); }
void hardSigmoid(Node &node) {
  node.set(hardSigmoidOf(Expr(node, node.input(0)), node.floatAttr("alpha", 0.2f), node.floatAttr("beta", 0.5)));
}
void hardSwish(Node &node) {
  Expr x(node, node.input(0));
  node.set(x * hardSigmoidOf(x, 1.0 / 6, 0.5));
}

void mish(Node &node) {
  Expr x(node, node.input(0));
  node.set(x * x.apply<SoftplusOp>().apply<TanhOp>());
}

Expr thresholded(Expr x, double alpha, double = 0) { return x.where(isAbove(x, alpha), x.number(0)); }
void thresholdedRelu(Node &node) { node.set(thresholded(Expr(node, node.input(0)), node.floatAttr("alpha", 1))); }

void shrink(Node &node) {
  Expr x = real(node, node.input(0)); // whose limits are numbers between integers too
  double limit = node.floatAttr("lambd", 0.5), bias = node.floatAttr("bias", 0);
  auto plus = [&](double term) { return term == 0 ? x : x + term; };
  Expr above = plus(-bias).where(isAbove(x, limit), x.number(0));
  node.set(plus(bias).where(x.apply<LessOp>(-limit), above).cast(elementOf(node.input(0))));
}

template <typename OpT> Expr plain(Expr x, double, double) { return x.apply<OpT>(); }
void softplus(Node &node) { node.set(node.make<SoftplusOp>({node.input(0)})); }

/// As relu6's, where these are the bounds (Elementwise.cpp).
Expr clipped(Expr x, double low, double high) {
  return low == 0 && high == 6 ? saturate(x, 0, 6) : clamp(x, x.number(low), x.number(high));
}
Expr affine(Expr x, double alpha, double beta) { return x * alpha + beta; }
Expr scaledTanh(Expr x, double alpha, double beta) { return (x * beta).apply<TanhOp>() * alpha; }

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Defaults where neither ONNX's operator nor its text has one: those of ONNX Runtime.
constexpr Activation named[] = {
    {"sigmoid", 0, 0, 0, plain<SigmoidOp>},
    {"tanh", 0, 0, 0, plain<TanhOp>},
    {"relu", 0, 0, 0, plain<ReluOp>},
    {"softplus", 0, 0, 0, plain<SoftplusOp>},
    {"softsign", 0, 0, 0, softsignOf},
    {"leakyrelu", 1, 0.01f, 0, leaky},
    {"thresholdedrelu", 1, 1, 0, thresholded},
    {"elu", 1, 1, 0, eluOf},
    {"hardsigmoid", 2, 0.2f, 0.5, hardSigmoidOf},
    {"affine", 2, 1, 0, affine},
    {"scaledtanh", 2, 1, 1, scaledTanh},
    {"clip", 2, -infinity, infinity, clipped},
};

} // namespace

const Activation *zc::importer::findActivation(llvm::StringRef name) {
  const auto *found = llvm::find_if(named, [&](const Activation &one) { return name.equals_insensitive(one.name); });
  return found == std::end(named) ? nullptr : found;
}

Expr zc::importer::activated(Node &node, Expr y, llvm::ArrayRef<double> numbers) {
  if (!node.hasAttr("activation"))
    return y;
  std::string name = node.stringAttr("activation", "");
  const Activation *found = findActivation(name);
  if (!found && !node.failed())
    node.unsupported("activation '" + name + "'");
  if (node.failed())
    return y;
  Activation activation = *found;
  if (!numbers.empty())
    activation.first = numbers[0];
  if (numbers.size() > 1)
    activation.second = numbers[1];
  return activation(y);
}

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
