//===- Training.cpp - optimizers of ai.onnx.preview.training, buffers -----------===//
//
// Adam, Adagrad and Momentum of version 1 as plain arithmetic. Inputs: rate R, step T, then all tensors, all gradients,
// all states of a kind; outputs: all new tensors, then the new states. And what `zero export` writes of the buffers
// that a forward pass changes.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// Groups of as many tensors each.
class Groups {
public:
  Groups(Node &node, unsigned kinds) : node(node), count((node.numInputs() - 2) / kinds) {
    if (node.numInputs() != 2 + kinds * count || count == 0)
      node.invalid("has " + std::to_string(node.numInputs()) + " inputs, not 2 and " + std::to_string(kinds) +
                   " groups of equal size");
  }
  Expr of(unsigned kind, unsigned i) const { return {node, node.input(2 + kind * count + i)}; }
  void set(unsigned kind, unsigned i, Value value) { node.set(kind * count + i, value); }
  /// Rate or step in the tensor's element type.
  Expr scalar(unsigned input, Expr like) const {
    Expr given(node, node.input(input));
    return given.cast(like.element()).reshape({});
  }
  Node &node;
  const unsigned count;
};

Expr regularized(Node &node, Expr x, Expr g) {
  double norm = node.floatAttr("norm_coefficient", 0);
  return norm == 0 ? g : x * norm + g;
}

/// `value` from the second step on (T > 0), `first` at the first.
Expr afterFirst(Expr step, Expr value, Expr first) { return value.where(step.number(0).apply<LessOp>(step), first); }

void adam(Node &node) {
  Groups groups(node, 4);
  double alpha = node.floatAttr("alpha", 0.9f), beta = node.floatAttr("beta", 0.999f);
  double epsilon = node.floatAttr("epsilon", 0), post = node.floatAttr("norm_coefficient_post", 0);
  for (unsigned i = 0; i < groups.count && !node.failed(); ++i) {
    Expr x = groups.of(0, i), g = regularized(node, x, groups.of(1, i));
    Expr v = groups.of(2, i) * alpha + g * (1 - alpha);
    Expr h = groups.of(3, i) * beta + g * g * (1 - beta);
    Expr rate = groups.scalar(0, x), step = groups.scalar(1, x);
    auto rest = [&](double base) { return 1.0 - step.number(base).apply<PowOp>(step); };
    rate = afterFirst(step, rate * rest(beta).apply<SqrtOp>() / rest(alpha), rate);
    Expr updated = x - rate * (v / (h.apply<SqrtOp>() + epsilon));
    groups.set(0, i, post == 0 ? updated : updated * (1 - post));
    groups.set(1, i, v);
    groups.set(2, i, h);
  }
}

void adagrad(Node &node) {
  Groups groups(node, 3);
  double decay = node.floatAttr("decay_factor", 0), epsilon = node.floatAttr("epsilon", 0);
  for (unsigned i = 0; i < groups.count && !node.failed(); ++i) {
    Expr x = groups.of(0, i), g = regularized(node, x, groups.of(1, i));
    Expr h = groups.of(2, i) + g * g;
    Expr rate = groups.scalar(0, x) / (groups.scalar(1, x) * decay + 1.0);
    groups.set(0, i, x - rate * g / (h.apply<SqrtOp>() + epsilon));
    groups.set(1, i, h);
  }
}

void momentum(Node &node) {
  Groups groups(node, 3);
  for (const char *required : {"alpha", "beta", "norm_coefficient", "mode"})
    if (!node.hasAttr(required))
      return node.invalid(std::string("attribute '") + required + "' is missing");
  double alpha = node.floatAttr("alpha", 0), beta = node.floatAttr("beta", 0);
  std::string mode = node.stringAttr("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return node.invalid("mode is '" + mode + "'");
  for (unsigned i = 0; i < groups.count && !node.failed(); ++i) {
    Expr x = groups.of(0, i), g = regularized(node, x, groups.of(1, i));
    Expr rate = groups.scalar(0, x), step = groups.scalar(1, x);
    Expr v = groups.of(2, i) * alpha + afterFirst(step, step.number(beta), step.number(1)) * g;
    groups.set(0, i, x - rate * (mode == "standard" ? v : g + v * alpha));
    groups.set(1, i, v);
  }
}

/// y, then pairs of an initializer and what it is from the next step on; y again, whose use keeps the changes in the
/// program. Evaluation changes nothing.
void assign(Node &node) {
  if (node.numInputs() % 2 == 0)
    return node.invalid("input " + std::to_string(node.numInputs() - 1) + " is an initializer without a new value");
  for (unsigned i = 1; i < node.numInputs() && !node.failed(); i += 2) {
    if (!node.isInitializer(i) || !node.has(i + 1))
      return node.invalid("inputs " + std::to_string(i) + " and " + std::to_string(i + 1) +
                          " are not an initializer and its new value");
    if (node.input(i).getType() != node.input(i + 1).getType())
      return node.invalid("'" + node.proto.input(i) + "' has another type than its new value");
    if (!node.options().forwardOnly && node.readState(i))
      node.assignState(i, node.input(i + 1));
  }
  node.set(node.input(0));
}

} // namespace

void zc::importer::addTrainingHandlers(HandlerTable &table) {
  const char *domain = "ai.onnx.preview.training";
  table.add(domain, "Adam", {1, 6, -1, adam});
  table.add(domain, "Adagrad", {1, 5, -1, adagrad});
  table.add(domain, "Momentum", {1, 5, -1, momentum});
  table.add("zero", "Assign", {1, 1, -1, assign});
}
