//===- LossOps.h - losses, of ONNX nodes and of --loss-op ----------------------===//
#pragma once

#include "compiler/import/node/Node.h"

namespace zc::importer {

/// No label has this value.
constexpr int64_t nothingIgnored = INT64_MIN;

/// Classes are dimension 1 of `scores` [N, C, d1, ...]; `labels` [N, d1, ...] are i64 or i32, or probabilities of the
/// classes, of the scores' shape; `weights` [C] or null.
struct ClassLoss {
  mlir::Value scores, labels, weights;
  int64_t ignoreIndex = nothingIgnored;
  std::string reduction = "mean"; ///< none, sum, or mean: sum / (weight of the labels that count)
  double smoothing = 0;           ///< this share of each label goes to all classes alike
};

/// ONNX SoftmaxCrossEntropyLoss-13: -w[label] log softmax(scores)[label], and what torch's cross_entropy has beyond it:
/// probabilities as labels, and smoothing. Null on errors, which stick to the node.
mlir::Value crossEntropy(Node &node, const ClassLoss &loss);
/// ONNX NegativeLogLikelihoodLoss-13: -w[label] scores[label]; behind a log-softmax the cross-entropy of its operand.
mlir::Value negativeLogLikelihood(Node &node, const ClassLoss &loss);

/// A loss of `--loss-op NAME:OUT:TARGET`, averaged as torch's functional of that name does by default.
struct NamedLoss {
  const char *name;
  const char *torch;      ///< for messages
  bool hasLabels = false; ///< the target holds class indices, not values like the output's
  mlir::Value (*build)(Node &node, mlir::Value out, mlir::Value target);
};
llvm::ArrayRef<NamedLoss> namedLosses();

/// Shape of the labels for class scores, where the graph has no such input: [N, C] and [N, S, C] (language models) have
/// the classes last, [N, C, H, W] and more have them second.
llvm::SmallVector<int64_t> labelShape(llvm::ArrayRef<int64_t> scores);

} // namespace zc::importer
