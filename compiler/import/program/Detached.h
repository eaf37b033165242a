//===- Detached.h - gradients that a model stops and its file does not ----------===//
//
// ONNX has no word for a detached value (docs/onnx.md 1.3): TorchScript's exporter leaves detach out, and so does the
// optimizer of torch.export's, whose traces still name it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/onnx.pb.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/StringSet.h"

namespace zc::importer {

/// By the traces that torch.export writes beside nodes.
class LostDetaches {
public:
  explicit LostDetaches(const onnxpb::Graph &graph);
  /// Whether the exported program gave `node` a detached value that no node of the file makes.
  bool isTakenBy(const onnxpb::Node &node) const;

private:
  llvm::StringSet<> kept; ///< names in traces
};

/// x + (y - x), and x - (x - y), are y: models write them where the difference is detached, so that x has the gradient
/// of the sum. Detaches the differences, and warns of it.
void detachStraightThrough(graph::ProgramOp program);

} // namespace zc::importer
