//===- Pipeline.cpp - zero-shard-pipeline ----------------------------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

void zc::buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options) {
  // Buckets first: all that follows speaks of buckets, not of parameters.
  manager.addPass(createZeroBucket(ZeroBucketOptions{options.worldSize, options.ranksPerNode, options.bucketSize}));
  // Gradients and the update before parameters: a gather must know the reads that remain.
  manager.addPass(createZeroPartition(ZeroPartitionOptions{options.stage, options.accumulation}));
  // Last, because it looks for the first and the last use of each bucket in the final order.
  manager.addPass(createZeroInsertGatherRelease());
  manager.addPass(createVerifyZero());
}

void zc::registerShardPipeline() {
  registerZcShardPasses();
  mlir::PassPipelineRegistration<ShardOptions>("zero-shard-pipeline", "graph to zero: buckets, stages, gathers",
                                               buildShardPipeline);
}
