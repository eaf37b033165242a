//===- Pipeline.cpp - zero-shard-pipeline ----------------------------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

void zc::buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options) {
  // Tiles are parameters, so they are made before anything is laid out.
  if (options.tileLinear != 0)
    manager.addPass(createZeroTileLinear(options));
  // While it can be told what is whole, and what is recomputed: both are seen in the operations.
  if (options.partitionActivations)
    manager.addPass(createZeroPartitionActivations(options));
  // While these are still tensors: what ranks of a group exchange in the middle of a tensor takes transpositions.
  if (options.model > 1)
    manager.addPass(createZeroModelAxis(options));
  // Buckets next: all that follows speaks of buckets, not of parameters.
  manager.addPass(createZeroBucket(options));
  // Before anything is cut: what is resident is not.
  if (options.resident > 0 && options.quantizeWeights == WeightFormat::none)
    manager.addPass(createZeroResidency(options));
  // Gradients and the update before parameters: a gather must know the reads that remain.
  manager.addPass(createZeroPartition(options));
  // As soon as there are updates: those that follow take what is published for what it is, copies and gathers.
  if (options.delayUpdate)
    manager.addPass(createZeroDelayUpdate(options));
  // Gradients know their micro-step by then; one gather then serves all micro-steps of a block.
  if (options.isVertical())
    manager.addPass(createZeroVertical(options));
  // Before anything else touches gathers, because it looks for the first and the last use of each bucket in the final
  // order.
  manager.addPass(createZeroInsertGatherRelease());
  // What is sent, before along which way: two hops are of bytes that are quantized already.
  if (options.quantizeWeights != WeightFormat::none)
    manager.addPass(createZeroQuantizeWeights(options));
  if (options.quantizeGradients != GradientFormat::none)
    manager.addPass(createZeroQuantizeGradients(options));
  // Ways before what is kept of them: a hop between nodes leaves a secondary shard by itself.
  if (options.hierarchicalCollectives)
    manager.addPass(createZeroHierarchicalCollectives());
  if (options.hierarchical)
    manager.addPass(createZeroHierarchical());
  // Last: where bytes are is decided when it is known who reads and writes them.
  if (options.offloads())
    manager.addPass(createZeroOffload(options));
  manager.addPass(createVerifyZero());
}

void zc::registerShardPipeline() {
  registerZcShardPasses();
  registerStage("zero-shard-pipeline", "graph to zero: buckets, stages, gathers", buildShardPipeline);
}
