//===- CompileOptions.h - what is asked of a compilation ----------------------------===//
#pragma once

#include "compiler/emit/Budgets.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zc {

/// Borders at which compilation can stop and be looked at; `emit` is the plan file.
enum class Phase { import, grad, shard, schedule, plan, emit };

struct CompileOptions {
  std::string model;  ///< path of the .onnx file
  std::string output; ///< path of the plan; empty: none is written

  // import
  std::map<std::string, int64_t> dims;
  std::string loss, lossOp;
  std::vector<std::string> trainable, frozen; ///< globs
  bool forwardOnly = false;                   ///< evaluation: no backward, no optimizer
  std::vector<std::string> outputs;           ///< with forwardOnly, the graph outputs to hand over; empty: all
  std::vector<std::pair<std::string, std::string>> ties;
  std::vector<std::string> untied;
  std::vector<std::pair<std::string, std::optional<int64_t>>> paddingIndices; ///< glob, row or none
  std::string ortCheckpoint, ortOptimizer; ///< empty: "checkpoint", "optimizer_model.onnx"
  std::vector<std::string> limits;         ///< "NAME=N"
  std::string dropout = "as-exported";     ///< as-exported | off | force
  std::string batchNorm = "as-exported";   ///< as-exported | train | eval
  std::string batchNormVariance = "torch"; ///< torch | onnx

  // grad
  std::string precision = "fp32";             ///< fp32 | bf16 | fp16
  std::string lossMean = "rank";              ///< rank | global
  std::string checkpointActivations = "none"; ///< none | block | selective
  bool optimizerGiven = false;                ///< else a model that brings a rule of its own is trained by that
  bool lrGiven = false;
  std::string rule = "adamw"; ///< adamw | adam | sgd | momentum
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum = 0.9;
  double weightDecay = -1; ///< negative: torch's default of the rule
  double clipGradNorm = 0; ///< 0: no clipping
  std::vector<std::string> noDecay;
  // of fp16
  double lossScale = 0; ///< 0: dynamic, from the following
  double initialLossScale = 65536, minLossScale = 1;
  int64_t lossScaleWindow = 1000, lossScaleHysteresis = 2;
  bool consecutiveHysteresis = false;

  // shard
  int64_t worldSize = 1, ranksPerNode = 0, stage = 0, accumulation = 1, bucketSize = 26214400;
  int64_t tileLinear = 0; ///< bytes of the largest weight of a linear that stays whole; 0: all, -1: bucketSize

  std::string quantizeWeights = "none";   ///< none | int8
  std::string quantizeGradients = "none"; ///< none | int4 | int8
  int64_t quantizeBlock = 0;              ///< elements per scale, even; 0: as weights and gradients need them
  bool errorFeedback = false, hierarchical = false, hierarchicalCollectives = false;
  std::string offloadOptimizer = "none", offloadParam = "none", offloadActivation = "none"; ///< none | host | nvme
  double offloadRatio = 1; ///< share of the update done on the host
  int64_t delayAfter = -1; ///< steps after which updates are delayed by one; -1: never

  std::string microOrder = "auto"; ///< rolled | vertical | auto: the faster one
  int64_t verticalMost = 100000;   ///< operations of all micro-steps that may stand in a plan
  int64_t residency = -1;          ///< bytes for parameters kept whole at stage 3; -1: what the device's budget leaves

  // schedule
  int64_t prefetch = -1; ///< bytes; -1: auto
  std::string machine;   ///< machine file; empty: default rates
  Budgets budgets;
  uint64_t seed = 0;

  bool findSmallest = false; ///< the report as a table ends with the smallest feasible budget
  bool proposesFit = true;   ///< over budget, the error names a change that fits
  /// State that every rank has whole is not offloaded; only an offloaded update is delayed.
  bool placementIsValid() const {
    if (delayAfter >= 0 && offloadOptimizer == "none")
      return false;
    return worldSize == 1 || ((offloadOptimizer == "none" || stage >= 1) && (offloadParam == "none" || stage == 3));
  }

  Phase stopAfter = Phase::emit;
  std::string dumpPhasesTo; ///< folder for numbered .mlir files; empty: none
  std::string memoryHtml;   ///< file for memoryPage; empty: none
  std::string emitTrace;    ///< file for plannedTrace; empty: none
};

/// The same plan, but nothing written, proposed or searched: for what it predicts.
inline CompileOptions predicting(CompileOptions options) {
  options.output.clear();
  options.dumpPhasesTo.clear();
  options.memoryHtml.clear();
  options.emitTrace.clear();
  options.stopAfter = Phase::emit;
  options.findSmallest = options.proposesFit = false;
  return options;
}

} // namespace zc
