//===- Passes.h - from one device to a mesh of ranks --------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <memory>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace zc {

/// Options of zero-shard-pipeline.
struct ShardOptions : mlir::PassPipelineOptions<ShardOptions> {
  Option<int64_t> worldSize{*this, "world-size", llvm::cl::desc("ranks"), llvm::cl::init(1)};
  Option<int64_t> ranksPerNode{*this, "ranks-per-node", llvm::cl::desc("ranks of one node; 0: all"), llvm::cl::init(0)};
  Option<int64_t> bucketSize{*this, "bucket-size", llvm::cl::desc("bytes of a full bucket"), llvm::cl::init(26214400)};
  Option<int64_t> tileLinear{*this, "tile-linear",
                             llvm::cl::desc("bytes of the largest weight that stays whole; 0: all, -1: bucket-size"),
                             llvm::cl::init(0)};
  Option<int64_t> stage{*this, "stage", llvm::cl::desc("ZeRO stage, 0 to 3"), llvm::cl::init(0)};
  Option<std::string> quantizeWeights{*this, "quantize-weights", llvm::cl::desc("none or int8"),
                                      llvm::cl::init("none")};
  Option<std::string> quantizeGradients{*this, "quantize-gradients", llvm::cl::desc("none, int4 or int8"),
                                        llvm::cl::init("none")};
  Option<int64_t> quantizeBlock{*this, "quantize-block", llvm::cl::desc("elements per scale; 0: 512 and 128"),
                                llvm::cl::init(0)};
  Option<bool> errorFeedback{*this, "quantize-error-feedback", llvm::cl::desc("keep what quantization loses")};
  Option<bool> hierarchical{*this, "hierarchical", llvm::cl::desc("backward gathers inside the node (hpZ)")};
  Option<bool> hierarchicalCollectives{*this, "hierarchical-collectives",
                                       llvm::cl::desc("collectives along one axis of the mesh after the other")};
  Option<int64_t> accumulation{*this, "accumulation", llvm::cl::desc("micro-steps per step"), llvm::cl::init(1)};
  Option<std::string> offloadOptimizer{*this, "offload-optimizer", llvm::cl::desc("none, host or nvme"),
                                       llvm::cl::init("none")};
  Option<std::string> offloadParam{*this, "offload-param", llvm::cl::desc("none, host or nvme"),
                                   llvm::cl::init("none")};
  Option<std::string> offloadActivation{*this, "offload-activation", llvm::cl::desc("none, host or nvme"),
                                        llvm::cl::init("none")};
  Option<bool> vertical{*this, "vertical", llvm::cl::desc("all micro-steps of a block before the next block"),
                        llvm::cl::init(false)};
  Option<int64_t> verticalMost{*this, "vertical-most", llvm::cl::desc("operations of all micro-steps"),
                               llvm::cl::init(100000)};
  Option<double> offloadRatio{*this, "offload-ratio", llvm::cl::desc("share updated on the host"), llvm::cl::init(1.0)};
  Option<int64_t> delayAfter{*this, "delay-after",
                             llvm::cl::desc("steps after which updates are delayed by one; -1: never"),
                             llvm::cl::init(-1)};
  Option<int64_t> chunk{*this, "chunk", llvm::cl::desc("bytes of fp32 moved at once"), llvm::cl::init(4194304)};
  Option<int64_t> resident{*this, "resident",
                           llvm::cl::desc("bytes for parameters kept whole; not with quantize-weights"),
                           llvm::cl::init(0)};
  Option<int64_t> residentOnHost{*this, "resident-on-host",
                                 llvm::cl::desc("bytes for parameters that offload-param=nvme leaves on the host"),
                                 llvm::cl::init(0)};
};

void buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options);
void registerShardPipeline();

#define GEN_PASS_DECL
#include "compiler/shard/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/shard/Passes.h.inc"

} // namespace zc
