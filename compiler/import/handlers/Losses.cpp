//===- Losses.cpp - cross-entropy ----------------------------------------------===//
#include "compiler/import/Handlers.h"
#include "compiler/import/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// No label has this value.
constexpr int64_t nothingIgnored = INT64_MIN;

/// [N, C, d1, ...] -> [N d1 ..., C]
Value rowsOfClasses(Node &node, Value x) {
  int64_t rank = rankOf(x), classes = dimsOf(x)[1], rows = 1;
  llvm::SmallVector<int64_t> permutation{0};
  for (int64_t d = 2; d < rank; ++d)
    permutation.push_back(d);
  permutation.push_back(1);
  for (int64_t d = 0; d < rank; ++d)
    rows *= d == 1 ? 1 : dimsOf(x)[d];
  return node.reshape(node.transpose(x, permutation), {rows, classes});
}

/// The part both losses share: what is not supported, and the labels as one row. False: failed.
bool prepare(Node &node, Value &labels, std::string &reduction) {
  Value x = node.input(0);
  labels = node.input(1);
  reduction = node.stringAttr("reduction", "mean");
  if (rankOf(x) < 2 || rankOf(labels) != rankOf(x) - 1)
    node.invalid("scores " + shapeText(dimsOf(x)) + " and labels " + shapeText(dimsOf(labels)) + " do not match");
  else if (node.has(2))
    node.unsupported("class weights");
  else if (reduction == "none")
    node.unsupported("reduction 'none'");
  else if (reduction != "mean" && reduction != "sum")
    node.invalid("reduction is '" + reduction + "'");
  if (node.failed())
    return false;
  int64_t count = 1;
  for (int64_t d : dimsOf(labels))
    count *= d;
  labels = node.reshape(labels, {count});
  return !node.failed();
}

void softmaxCrossEntropy(Node &node) {
  Value labels;
  std::string reduction;
  if (!prepare(node, labels, reduction))
    return;
  Value logits = rowsOfClasses(node, node.input(0));
  node.set(0, node.make<CrossEntropyOp>({logits, labels},
                                        node.attrs()
                                            .integer("ignore_index", node.intAttr("ignore_index", nothingIgnored))
                                            .flag("sum", reduction == "sum")));
  if (node.wants(1))
    node.set(1, node.make<LogSoftmaxOp>({node.input(0)}, node.attrs().integer("axis", 1)));
}

/// Of log-probabilities; behind a log-softmax over the classes it is the cross-entropy of the logits.
void negativeLogLikelihood(Node &node) {
  Value labels;
  std::string reduction;
  if (!prepare(node, labels, reduction))
    return;
  auto attrs = node.attrs()
                   .integer("ignore_index", node.intAttr("ignore_index", nothingIgnored))
                   .flag("sum", reduction == "sum");
  auto logSoftmax = node.input(0).getDefiningOp<LogSoftmaxOp>();
  if (!logSoftmax || logSoftmax.getAxis() != 1)
    return node.unsupported("of anything but a LogSoftmax over the classes");
  node.set(node.make<CrossEntropyOp>({rowsOfClasses(node, logSoftmax.getInput()), labels}, attrs));
}

} // namespace

void zc::importer::addLossHandlers(HandlerTable &table) {
  table.add("SoftmaxCrossEntropyLoss", 12, 2, 3, softmaxCrossEntropy);
  table.add("NegativeLogLikelihoodLoss", 12, 2, 3, negativeLogLikelihood);
}
