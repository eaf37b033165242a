//===- MicrosoftGrad.cpp - gradient operators of ONNX Runtime's training graphs -===//
//
// com.microsoft, version 1: orttraining/core/graph/training_op_defs.cc documents them. Formulas stand in the table of
// derivatives of the operations they belong to; here they are the graph dialect's own gradient operations.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/handlers/LossOps.h"
#include "compiler/import/node/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

Value mul(Node &node, Value a, Value b) { return node.make<MulOp>({a, b}); }
Value sub(Node &node, Value a, Value b) { return node.make<SubOp>({a, b}); }
Value one(Node &node, Value like) { return node.scalar(1, elementOf(like)); }

/// dY where Y (or X: the same condition) is positive.
void reluGrad(Node &node) {
  Value dy = node.input(0), zero = node.scalar(0, elementOf(dy));
  node.set(node.make<SelectOp>({node.make<LessOp>({zero, node.input(1)}), dy, zero}));
}

/// dY Y (1 - Y)
void sigmoidGrad(Node &node) {
  Value dy = node.input(0), y = node.input(1);
  node.set(mul(node, dy, mul(node, y, sub(node, one(node, y), y))));
}

/// dY (1 - Y^2)
void tanhGrad(Node &node) {
  Value dy = node.input(0), y = node.input(1);
  node.set(mul(node, dy, sub(node, one(node, y), mul(node, y, y))));
}

template <bool isTanh> void geluGrad(Node &node) {
  node.set(node.make<GeluGradOp>({node.input(0), node.input(1)}, node.attrs().flag("tanh", isTanh)));
}

template <typename OpT> void softmaxGrad(Node &node) {
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(node.input(1)));
  if (!node.failed())
    node.set(node.make<OpT>({node.input(0), node.input(1)}, node.attrs().integer("axis", axis)));
}

/// dY, X, scale, mean, inv_std -> dX, dScale, dB
void layerNormGrad(Node &node) {
  Value x = node.input(1);
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(x));
  if (node.failed())
    return;
  auto rows = dimsOf(x).take_front(axis);
  auto results = node.makeAll(
      LayerNormGradOp::getOperationName(),
      {node.input(0), x, node.input(2), node.reshape(node.input(3), rows), node.reshape(node.input(4), rows)},
      node.attrs().integer("axis", axis));
  for (size_t i = 0; i < results.size(); ++i)
    node.set(i, results[i]);
}

/// dY, X, scale, inv_std -> dX, dScale
void rmsNormGrad(Node &node) {
  Value x = node.input(1);
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(x));
  if (node.failed())
    return;
  auto results =
      node.makeAll(RmsNormGradOp::getOperationName(),
                   {node.input(0), x, node.input(2), node.reshape(node.input(3), dimsOf(x).take_front(axis))},
                   node.attrs().integer("axis", axis));
  for (size_t i = 0; i < results.size(); ++i)
    node.set(i, results[i]);
}

/// shape, indices, dY -> zeros with dY added at the indices
void gatherGrad(Node &node) {
  auto shape = node.constantInts(0);
  int64_t axis = node.axis(node.intAttr("axis", 0), static_cast<int64_t>(shape.size()));
  if (!node.failed())
    node.set(node.make<GatherGradOp>({node.input(2), node.input(1)},
                                     node.attrs().ints("shape", shape).integer("axis", axis)));
}

/// dY, shape, indices
void gatherElementsGrad(Node &node) {
  auto shape = node.constantInts(1);
  int64_t axis = node.axis(node.intAttr("axis", 0), static_cast<int64_t>(shape.size()));
  if (!node.failed())
    node.set(node.make<GatherElementsGradOp>({node.input(0), node.input(2)},
                                             node.attrs().ints("shape", shape).integer("axis", axis)));
}

/// dY, mask, ratio -> Where(mask, dY / (1 - ratio), 0)
void dropoutGrad(Node &node) {
  double ratio = node.has(2) ? node.constantFloat(2) : 0.5;
  if (!node.failed())
    node.set(node.make<DropoutGradOp>({node.input(0), node.input(1)}, node.attrs().real("ratio", ratio)));
}

/// dY, log_prob, labels -> d scores. Log-probabilities are scores whose log-sum-exp is 0.
void crossEntropyGrad(Node &node) {
  Value dy = node.input(0), logProbabilities = node.input(1), labels = node.input(2);
  std::string reduction = node.stringAttr("reduction", "mean");
  if (node.has(3) || node.has(4))
    return node.unsupported("class weights or a bias");
  if (rankOf(logProbabilities) != 2 || (reduction != "mean" && reduction != "sum"))
    return node.unsupported("of rank " + std::to_string(rankOf(logProbabilities)) + ", reduction '" + reduction + "'");
  Value lse = node.expand(node.scalar(0, elementOf(logProbabilities)), dimsOf(labels));
  node.set(node.make<CrossEntropyGradOp>({node.reshape(dy, {}), logProbabilities, labels, lse},
                                         node.attrs()
                                             .integer("ignore_index", node.intAttr("ignore_index", nothingIgnored))
                                             .flag("sum", reduction == "sum")));
}

} // namespace

void zc::importer::addMicrosoftGradHandlers(HandlerTable &table) {
  auto add = [&](const char *op, int minInputs, int maxInputs, Handler handler, std::vector<KnownInput> known = {}) {
    table.add("com.microsoft", op, {1, minInputs, maxInputs, handler, false, std::move(known)});
  };
  add("ReluGrad", 2, 2, reluGrad);
  add("SigmoidGrad", 2, 2, sigmoidGrad);
  add("TanhGrad", 2, 2, tanhGrad);
  add("GeluGrad", 2, 2, geluGrad<false>);
  add("FastGeluGrad", 2, 2, geluGrad<true>);
  add("SoftmaxGrad_13", 2, 2, softmaxGrad<SoftmaxGradOp>);
  add("LogSoftmaxGrad_13", 2, 2, softmaxGrad<LogSoftmaxGradOp>);
  add("LayerNormalizationGrad", 5, 5, layerNormGrad);
  add("SimplifiedLayerNormalizationGrad", 4, 4, rmsNormGrad);
  add("GatherGrad", 3, 3, gatherGrad, {{0, "shape"}});
  add("GatherElementsGrad", 3, 3, gatherElementsGrad, {{1, "shape"}});
  add("DropoutGrad", 2, 4, dropoutGrad, {{2, "ratio"}});
  add("SoftmaxCrossEntropyLossGrad", 3, 5, crossEntropyGrad);
}
