//===- Passes.h - from the forward graph to a training step -------------------===//
#pragma once

#include "compiler/grad/Options.h"
#include "compiler/options/PassOptions.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"

namespace zc {

/// Appends the grad stage: forward graph in, training step out (or a step that hands over its outputs).
void buildGradPipeline(mlir::OpPassManager &manager, const GradStage &options);
/// What shard-tensors does to a forward graph under these options, as a table. Fails, with an error at the operation,
/// where a pass before it does.
mlir::FailureOr<std::string> explainSharding(mlir::ModuleOp module, const GradStage &options);
/// Registers the stage's passes, and the stage as `zero-grad-pipeline{precision=bf16 optimizer=sgd lr=0.1}`.
void registerGradPipeline();

/// Is `weight` one that zero-tile-linear does not cut?
inline bool staysWhole(mlir::Value weight, const GradStage &options) {
  return options.largestWhole == 0 ||
         graph::bytesOf(mlir::cast<mlir::RankedTensorType>(weight.getType())) <= options.largestWhole;
}

// The passes that are told something; Passes.td describes them.
std::unique_ptr<mlir::Pass> createConvertPrecision(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createDifferentiate(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createLossMean(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createExpandDropout(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createRepeatKeys(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createShardTensors(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createFuseHead(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createPropagateLayout(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createHoistReversals(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createFoldViews(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createSplitSums(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createFuseGatherGrad(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createFuseEpilogues(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createSplitRows(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createSplitDropout(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createFuseElementwise(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createCheckpointActivations(const GradStage &options = {});
std::unique_ptr<mlir::Pass> createAppendOptimizer(const GradStage &options = {});

#define GEN_PASS_DECL
#include "compiler/grad/Passes.h.inc"

} // namespace zc
