//===- Passes.h - from the zero level to a plan --------------------------------===//
#pragma once

#include "compiler/options/PassOptions.h"
#include "compiler/schedule/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace zc {

/// What --compile-to schedule shows: the zero level, ordered and placed.
void buildSchedulePipeline(mlir::OpPassManager &manager, const ScheduleOptions &options);
/// From there to the plan dialect.
void buildPlanPipeline(mlir::OpPassManager &manager, const ScheduleOptions &options);
void registerSchedulePipelines();

// The passes that are told something; Passes.td describes them.
std::unique_ptr<mlir::Pass> createOverlapTensorParallel(const ScheduleOptions &options = {});
std::unique_ptr<mlir::Pass> createJoinUpdate(const ScheduleOptions &options = {});
std::unique_ptr<mlir::Pass> createPrefetch(const ScheduleOptions &options = {});
std::unique_ptr<mlir::Pass> createOrder(const ScheduleOptions &options = {});
std::unique_ptr<mlir::Pass> createPlanMemory(const ScheduleOptions &options = {});
std::unique_ptr<mlir::Pass> createKeepPacked(const ScheduleOptions &options = {});

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

} // namespace zc
