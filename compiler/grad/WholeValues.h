//===- WholeValues.h - what the ranks of the model axis have in common -------------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include "llvm/ADT/DenseSet.h"

namespace zc {

/// Values that all ranks of the model axis compute whole from what all have whole: with equal bits, and of a forward
/// with equal gradients. Not what diverges from them, of which each rank has a gradient of its own. Inputs are whole.
llvm::DenseSet<mlir::Value> wholeValues(graph::ProgramOp program);

} // namespace zc
