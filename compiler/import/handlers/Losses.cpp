//===- Losses.cpp - cross-entropy ----------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/handlers/LossOps.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// torch.export writes cross_entropy without its label_smoothing, which is the sixth argument in its trace.
double tracedSmoothing(Node &node) {
  auto arguments = node.tracedCall("aten.cross_entropy_loss");
  double share = 0;
  bool isThere = arguments && arguments->size() > 5 && !(*arguments)[5].getAsDouble(share);
  return isThere && share > 0 && share <= 1 ? share : 0;
}

ClassLoss read(Node &node) {
  return {node.input(0),
          node.input(1),
          node.input(2),
          node.intAttr("ignore_index", nothingIgnored),
          node.stringAttr("reduction", "mean"),
          tracedSmoothing(node)};
}

void softmaxCrossEntropy(Node &node) {
  node.set(0, crossEntropy(node, read(node)));
  if (node.wants(1))
    node.set(1, node.make<LogSoftmaxOp>({node.input(0)}, node.attrs().integer("axis", 1)));
}

void negativeLogLikelihoodLoss(Node &node) { node.set(negativeLogLikelihood(node, read(node))); }

} // namespace

void zc::importer::addLossHandlers(HandlerTable &table) {
  table.add("SoftmaxCrossEntropyLoss", 12, 2, 3, softmaxCrossEntropy);
  table.add("NegativeLogLikelihoodLoss", 12, 2, 3, negativeLogLikelihoodLoss);
}
