//===- Passes.h - from one device to a mesh of ranks --------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace zc {

/// Options of zero-shard-pipeline.
struct ShardOptions : mlir::PassPipelineOptions<ShardOptions> {
  Option<int64_t> worldSize{*this, "world-size", llvm::cl::desc("ranks"), llvm::cl::init(1)};
  Option<int64_t> ranksPerNode{*this, "ranks-per-node", llvm::cl::desc("ranks of one node; 0: all"), llvm::cl::init(0)};
  Option<int64_t> bucketSize{*this, "bucket-size", llvm::cl::desc("bytes of a full bucket"), llvm::cl::init(26214400)};
  Option<int64_t> stage{*this, "stage", llvm::cl::desc("ZeRO stage, 0 to 3"), llvm::cl::init(0)};
  Option<int64_t> accumulation{*this, "accumulation", llvm::cl::desc("micro-steps per step"), llvm::cl::init(1)};
};

void buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options);
void registerShardPipeline();

#define GEN_PASS_DECL
#include "compiler/shard/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/shard/Passes.h.inc"

} // namespace zc
