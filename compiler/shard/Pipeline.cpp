//===- Pipeline.cpp - zero-shard-pipeline ----------------------------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"
#include "kernels/Quantized.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

void zc::buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options) {
  // Tiles are parameters, so they are made before anything is laid out.
  if (options.tileLinear != 0)
    manager.addPass(createZeroTileLinear(
        ZeroTileLinearOptions{options.tileLinear < 0 ? options.bucketSize.getValue() : options.tileLinear.getValue()}));
  // Buckets next: all that follows speaks of buckets, not of parameters.
  manager.addPass(createZeroBucket(ZeroBucketOptions{options.worldSize, options.ranksPerNode, options.bucketSize}));
  // Before anything is cut: what is resident is not. Block by block, micro-steps gather once for all.
  if (options.resident > 0 && options.quantizeWeights == "none")
    manager.addPass(
        createZeroResidency(ZeroResidencyOptions{options.resident, options.vertical ? 1 : options.accumulation}));
  // Gradients and the update before parameters: a gather must know the reads that remain.
  manager.addPass(createZeroPartition(ZeroPartitionOptions{options.stage, options.accumulation}));
  // As soon as there are updates: those that follow take what is published for what it is, copies and gathers.
  if (options.delayAfter >= 0)
    manager.addPass(createZeroDelayUpdate(ZeroDelayUpdateOptions{options.delayAfter}));
  // Gradients know their micro-step by then; one gather then serves all micro-steps of a block.
  if (options.vertical)
    manager.addPass(createZeroVertical(ZeroVerticalOptions{options.verticalMost}));
  // Before anything else touches gathers, because it looks for the first and the last use of each bucket in the final
  // order.
  manager.addPass(createZeroInsertGatherRelease());
  auto blockOr = [&](int64_t usual) { return options.quantizeBlock == 0 ? usual : options.quantizeBlock.getValue(); };
  // What is sent, before along which way: two hops are of bytes that are quantized already.
  if (options.quantizeWeights != "none")
    manager.addPass(createZeroQuantizeWeights(ZeroQuantizeWeightsOptions{8, blockOr(kWeightBlock)}));
  if (options.quantizeGradients != "none")
    manager.addPass(createZeroQuantizeGradients(ZeroQuantizeGradientsOptions{
        options.quantizeGradients == "int4" ? 4 : 8, blockOr(kGradientBlock), options.errorFeedback}));
  // Ways before what is kept of them: a hop between nodes leaves a secondary shard by itself.
  if (options.hierarchicalCollectives)
    manager.addPass(createZeroHierarchicalCollectives());
  if (options.hierarchical)
    manager.addPass(createZeroHierarchical());
  // Last: where bytes are is decided when it is known who reads and writes them.
  if (options.offloadOptimizer != "none" || options.offloadParam != "none" || options.offloadActivation != "none")
    manager.addPass(
        createZeroOffload(ZeroOffloadOptions{options.offloadOptimizer, options.offloadParam, options.offloadActivation,
                                             options.offloadRatio, options.chunk, options.residentOnHost}));
  manager.addPass(createVerifyZero());
}

void zc::registerShardPipeline() {
  registerZcShardPasses();
  mlir::PassPipelineRegistration<ShardOptions>("zero-shard-pipeline", "graph to zero: buckets, stages, gathers",
                                               buildShardPipeline);
}
