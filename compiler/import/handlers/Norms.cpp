//===- Norms.cpp - normalizations, softmaxes, dropout --------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// `value` in the shape of the normalized dimensions, which it may broadcast to. Null where it differs over those
/// before.
Value toRow(Node &node, Value value, llvm::ArrayRef<int64_t> row) {
  auto shape = dimsOf(value);
  while (shape.size() > row.size() && shape.front() == 1)
    shape = shape.drop_front();
  return shape.size() > row.size() ? Value() : node.expand(node.reshape(value, shape), row);
}

/// Statistics have the shape of the input with the normalized dimensions as 1.
void setStatistic(Node &node, unsigned i, Value statistic, int64_t axis, int64_t rank) {
  if (!node.wants(i) || !statistic)
    return;
  Dims shape(dimsOf(statistic));
  shape.append(rank - axis, 1);
  node.set(i, node.reshape(statistic, shape));
}

/// Results after the first are statistics; RMSNormalization has none, and no bias. Scale and bias that differ over more
/// than the normalized dimensions are applied behind it.
template <typename OpT> void norm(Node &node) {
  Value x = node.input(0);
  int64_t rank = rankOf(x), axis = node.axis(node.intAttr("axis", -1), rank);
  if (node.failed())
    return;
  if (node.intAttr("stash_type", 1) != 1)
    return node.unsupported("stash_type other than float");
  auto row = dimsOf(x).drop_front(axis);
  Value scale = toRow(node, node.input(1), row), bias = node.input(2) ? toRow(node, node.input(2), row) : Value();
  bool isBehind = !scale || (node.input(2) && !bias);
  llvm::SmallVector<Value> operands{x, isBehind ? node.expand(node.scalar(1, elementOf(x)), row) : scale};
  if (bias && !isBehind)
    operands.push_back(bias);
  auto results = node.makeAll(OpT::getOperationName(), operands,
                              node.attrs().integer("axis", axis).real("epsilon", node.epsilon(1e-5f)));
  if (node.failed())
    return;
  Value y = results[0];
  if (isBehind)
    y = node.make<MulOp>({y, node.input(1)});
  if (isBehind && node.input(2))
    y = node.make<AddOp>({y, node.input(2)});
  if (!node.failed() && dimsOf(y) != dimsOf(x))
    return node.invalid("scale or bias does not broadcast to the input " + shapeText(dimsOf(x)));
  node.set(0, y);
  for (unsigned i = 1; i < results.size(); ++i)
    setStatistic(node, i, results[i], axis, rank);
}

template <typename OpT> void softmax(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(x));
  if (node.failed())
    return;
  Attrs attributes = node.attrs().integer("axis", axis);
  // torch's rows of which its mask hides all are zeros, and so are their gradients.
  if (std::is_same_v<OpT, SoftmaxOp> && node.tracedCall("aten.scaled_dot_product_attention"))
    attributes.flag("zero_masked");
  node.set(node.make<OpT>({x}, attributes));
}

/// Until opset 12: over all dimensions from `axis` on, as one.
template <typename OpT> void flatSoftmaxOf(Node &node, Value x) {
  int64_t axis = node.axis(node.intAttr("axis", 1), rankOf(x));
  if (node.failed())
    return;
  int64_t rows = 1, columns = 1;
  for (int64_t d = 0; d < rankOf(x); ++d)
    (d < axis ? rows : columns) *= dimsOf(x)[d];
  Value y = node.make<OpT>({node.reshape(x, {rows, columns})}, node.attrs().integer("axis", 1));
  node.set(node.reshape(y, dimsOf(x)));
}
template <typename OpT> void flatSoftmax(Node &node) { flatSoftmaxOf<OpT>(node, node.input(0)); }

/// ONNX Runtime's: softmax of data + bias.
void biasSoftmax(Node &node) {
  Value x = node.make<AddOp>({node.input(0), node.input(1)});
  if (node.failed())
    return;
  if (dimsOf(x) != dimsOf(node.input(0)))
    return node.invalid("the bias is larger than the data");
  flatSoftmaxOf<SoftmaxOp>(node, x);
}

void dropoutBy(Node &node, double ratio, bool training) {
  Value x = node.input(0);
  if (!(ratio >= 0 && ratio <= 1))
    return node.invalid("ratio is " + std::to_string(ratio) + ", not in [0, 1]");
  DropoutPolicy policy = node.options().dropout;
  bool active = ratio > 0 && policy != DropoutPolicy::off && (training || policy == DropoutPolicy::force);
  const bool dropsAll = active && ratio == 1; // which ONNX leaves open, and torch does
  if (!active || dropsAll) {
    node.habits().inactiveDropouts += !active && ratio > 0 && !node.options().forwardOnly;
    node.set(0, dropsAll ? node.make<MulOp>({x, node.scalar(0, elementOf(x))}) : x);
    HostTensor kept = HostTensor::scalar(dropsAll ? 0 : 1, DType::boolean);
    if (node.wants(1))
      node.set(1, node.expand(node.constant(kept), dimsOf(x)));
    return;
  }
  auto results = node.makeAll(DropoutOp::getOperationName(), {x},
                              node.attrs().real("ratio", ratio).integer("id", node.nextDropoutId()));
  for (size_t i = 0; i < results.size(); ++i)
    node.set(i, results[i]);
}

/// Without training_mode the file says "identity".
void dropout(Node &node) {
  double ratio = node.has(1) ? node.constantFloat(1) : 0.5;
  bool training = node.has(2) && node.constantFloat(2) != 0;
  if (!node.failed())
    dropoutBy(node, ratio, training);
}
void dropoutAttributes(Node &node) { dropoutBy(node, node.floatAttr("ratio", 0.5), false); }

} // namespace

void zc::importer::addNormHandlers(HandlerTable &table) {
  table.add("LayerNormalization", 17, 2, 3, norm<LayerNormOp>);
  table.add("RMSNormalization", 23, 2, 2, norm<RmsNormOp>);
  for (const char *domain : {"com.microsoft", ""}) // ONNX Runtime registers its own in ONNX's domain too
    table.add(domain, "SimplifiedLayerNormalization", {1, 2, 2, norm<RmsNormOp>});
  table.add("Softmax", 1, 1, 1, flatSoftmax<SoftmaxOp>);
  table.add("Softmax", 13, 1, 1, softmax<SoftmaxOp>);
  table.add("LogSoftmax", 1, 1, 1, flatSoftmax<LogSoftmaxOp>);
  table.add("LogSoftmax", 13, 1, 1, softmax<LogSoftmaxOp>);
  table.add("com.microsoft", "BiasSoftmax", {1, 2, 2, biasSoftmax});
  table.add("Dropout", 7, 1, 1, dropoutAttributes);
  table.add("Dropout", 12, 1, 3, dropout, {{1, "ratio"}, {2, "training_mode"}});
}
