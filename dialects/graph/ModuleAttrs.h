//===- ModuleAttrs.h - what modules and programs say of themselves ---------------===//
//
// The attributes of modules and programs as values with named fields. Who sets one field takes the value, sets it and
// puts it back; nobody else knows an attribute's name.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "kernels/Target.h"
#include "kernels/UpdateSettings.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace zc::graph {

/// `graph.model`: the file that the step was imported from.
struct Model {
  struct File {
    std::string name;
    int64_t bytes = 0;
    uint64_t hash = 0;
  };
  std::string path, name;
  int64_t bytes = 0;
  uint64_t hash = 0;
  std::vector<File> external; ///< beside it, with tensors of it
};
Model modelOf(mlir::ModuleOp module);
void setModel(mlir::ModuleOp module, const Model &model);

/// `graph.target`: what the kernels of the step run on; the CPU where nothing is said.
Target targetOf(mlir::ModuleOp module);
void setTarget(mlir::ModuleOp module, Target target);

/// `graph.model_ranks`: ranks of the model axis, each of which has its part of what the module's types say; 1 where
/// nothing is said.
int64_t modelRanksOf(mlir::ModuleOp module);
void setModelRanks(mlir::ModuleOp module, int64_t ranks);

/// How the scale of the loss follows overflows.
struct LossScale {
  double initial = 0, minimum = 0;
  int64_t window = 0, hysteresis = 0; ///< a window of 0 keeps the scale
  bool consecutive = false;
};

/// `graph.training`: what a step computes, apart from where.
struct Training {
  Precision precision = Precision::fp32;
  MatmulPrecision matmulPrecision = MatmulPrecision::ieee;
  int64_t seed = 0;
  bool forwardOnly = false;    ///< there is no backward
  bool sumsGradients = false;  ///< over micro-steps and ranks, instead of their mean
  bool weightedLoss = false;   ///< losses are numerators of a mean over all ranks and micro-steps
  bool epsUncorrected = false; ///< eps is added to sqrt(v), not to sqrt(v / (1 - beta2^t))
  std::optional<UpdateSettings> optimizer;
  std::optional<LossScale> lossScale;
};
Training trainingOf(mlir::ModuleOp module);
void setTraining(mlir::ModuleOp module, const Training &training);

/// `graph.outputs`: what a program's results are, until forward-only hands them over.
struct Outputs {
  std::vector<std::string> names;      ///< one for each result
  std::optional<int64_t> loss, weight; ///< which results are the loss, and the weight of it
  bool likelihood = false;             ///< the loss is the mean negative log-likelihood of a label
  bool byLabels = false;               ///< ... and samples whose labels are all ignored change nothing of it
};
std::optional<Outputs> outputsOf(ProgramOp program);
void setOutputs(ProgramOp program, const std::optional<Outputs> &outputs);

} // namespace zc::graph
