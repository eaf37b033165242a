//===- AppendLoss.h - --loss-op: a loss for a graph that has none -------===//
#pragma once

#include "compiler/import/file/ModelFile.h"
#include "compiler/import/handlers/LossOps.h"
#include "dialects/graph/Graph.h"

namespace zc::importer {

/// The loss of --loss-op. Without one, `loss` is null.
struct AppendedLoss {
  const NamedLoss *loss = nullptr;
  std::string flag; ///< for messages
  std::string out, target;
};

/// "cross_entropy:LOGITS:LABELS". Errors: usage.
Result<AppendedLoss> parseLossOp(const ModelFile &file, const std::string &lossOp);

/// Its value, at the end of `program`. A target that the graph does not have becomes an input. Errors: usage.
Result<mlir::Value> appendLoss(const AppendedLoss &appended, const ModelFile &file, NodeContext &context,
                               graph::ProgramOp program);

} // namespace zc::importer
