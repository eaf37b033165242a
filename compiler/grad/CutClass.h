//===- CutClass.h - dimensions that are cut together -------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <string>
#include <vector>

namespace zc {

/// A program as classes of dimensions see it.
struct CutContext {
  CutContext(graph::ProgramOp program, int64_t ranks);

  /// The parameter that `value` is read from, unless that is a buffer; null if there is none.
  graph::ParameterOp weightOf(mlir::Value value) const;
  /// Does it depend on a weight, so that it may have a gradient?
  bool isActive(mlir::Value value) const { return active.contains(value); }

  int64_t ranks;
  std::vector<graph::ParameterOp> weights;                                    ///< trainable and frozen
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> reads; ///< of each
  llvm::StringMap<graph::ParameterOp> byName;
  llvm::DenseSet<mlir::Value> active;
};

/// Dimensions that are cut together, and what it takes.
struct CutClass {
  llvm::MapVector<mlir::Operation *, graph::OpCut> operations;
  llvm::MapVector<mlir::Operation *, graph::TensorCut> weights; ///< by graph.parameter
  double bytes = 0;                                             ///< that a rank sends in a micro-step
  int64_t elements = 0;                                         ///< of the weights
  std::string problem;                                          ///< not empty: this cannot be
};

/// How far a class reaches.
enum class Reach {
  whole, ///< as far as the rules lead
  near,  ///< to the first operation with other operands, whose result is gathered
};

/// The class of one cut of one weight.
CutClass growClass(const CutContext &context, graph::ParameterOp seed, graph::TensorCut cut, Reach reach);

} // namespace zc
