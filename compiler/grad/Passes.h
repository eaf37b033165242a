//===- Passes.h - from the forward graph to a training step -------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"

namespace zc {

/// Type of parameters and gradients; master weights and optimizer state are fp32 in any case.
enum class Precision { fp32, bf16, fp16 };

/// What the backward computes again instead of keeping it.
enum class CheckpointPolicy { none, block, selective };

/// Over what the loss is a mean.
enum class LossMean { rank, global };

#define GEN_PASS_DECL
#include "compiler/grad/Passes.h.inc"

/// Everything the grad stage can be told.
struct GradOptions {
  bool forwardOnly = false; ///< no backward and no update: of the others, `precision` and `lossMean` count
  ConvertPrecisionOptions precision;
  LossMeanOptions lossMean;
  DifferentiateOptions differentiate;
  CheckpointActivationsOptions checkpoint;
  AppendOptimizerOptions optimizer;
};

/// Appends the grad stage: forward graph in, training step out (or a step that hands over its outputs).
void buildGradPipeline(mlir::OpPassManager &manager, const GradOptions &options);

/// Registers the stage's passes, and the stage as
/// `zero-grad-pipeline{precision="to=bf16" optimizer="rule=sgd lr=0.1"}`.
void registerGradPipeline();

} // namespace zc
