//===- Passes.h - from one device to a mesh of ranks --------------------------===//
#pragma once

#include "compiler/options/PassOptions.h"
#include "compiler/shard/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace zc {

void buildShardPipeline(mlir::OpPassManager &manager, const ShardOptions &options);
/// Registers the stage's passes, and the stage as `zero-shard-pipeline{world-size=2 zero-stage=3}`.
void registerShardPipeline();

// The passes that are told something; Passes.td describes them.
std::unique_ptr<mlir::Pass> createZeroTileLinear(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroPartitionActivations(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroModelAxis(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroBucket(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroResidency(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroPartition(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroDelayUpdate(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroVertical(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroQuantizeWeights(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroQuantizeGradients(const ShardOptions &options = {});
std::unique_ptr<mlir::Pass> createZeroOffload(const ShardOptions &options = {});

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/shard/Passes.h.inc"

} // namespace zc
