//===- ShardingSearch.h - which weights are cut over the model axis, and where ----------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include "llvm/ADT/MapVector.h"

#include <string>
#include <vector>

namespace zc {

/// How a program is computed in parts. What is not named is computed whole on every rank.
struct Sharding {
  /// What became of a parameter.
  struct Weight {
    graph::ParameterOp parameter;
    std::optional<graph::TensorCut> cut;
    double bytes = 0; ///< that a rank sends in a micro-step because of this and the weights that are cut with it
    std::string why;  ///< with whom it is cut, or why it is not
  };
  llvm::DenseMap<mlir::Operation *, graph::OpCut> operations;
  llvm::MapVector<mlir::Operation *, Weight> weights; ///< by graph.parameter, in their order
  int64_t elements = 0, cutElements = 0;              ///< of trainable and frozen parameters

  bool cutsSomething() const { return cutElements > 0; }
};

/// Dimensions that are cut together make a class: from one dimension of one weight, along whatever the operations'
/// rules say belongs to it, to where a sum over ranks ends it. (The hidden units of an MLP: columns of the first
/// weight, the activation, rows of the second.) Of these classes, and of single weights whose result is gathered at
/// once, those are taken first that send the fewest bytes for an element they cut, until what is left is little and
/// dear; what shares an operation or a weight excludes each other. Inputs are never cut. Linear in the size of the
/// program, up to the number of classes through the residual stream.
Sharding findSharding(graph::ProgramOp program, int64_t ranks);

/// A line for each weight: its type, a rank's part, bytes sent, why.
std::string explain(const Sharding &sharding, int64_t ranks);

} // namespace zc
