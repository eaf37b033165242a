//===- Passes.h - from the zero level to a plan --------------------------------===//
#pragma once

#include "compiler/schedule/Overlap.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace zc {

/// The names of `Overlap` as a pass option.
inline llvm::cl::ValuesClass overlapValues() {
  return llvm::cl::values(clEnumValN(Overlap::none, "none", "the least memory"),
                          clEnumValN(Overlap::planned, "planned", "so that queues do not wait if all goes as expected"),
                          clEnumValN(Overlap::slower, "slower", "nor where links are slower"));
}

/// Options of zero-schedule-pipeline.
struct ScheduleOptions : mlir::PassPipelineOptions<ScheduleOptions> {
  Option<int64_t> prefetch{*this, "prefetch", llvm::cl::desc("bytes gathered ahead; -1: auto"), llvm::cl::init(-1)};
  Option<int64_t> deviceMemory{*this, "device-mem", llvm::cl::desc("bytes per rank; 0: no budget"), llvm::cl::init(0)};
  Option<int64_t> hostMemory{*this, "host-mem", llvm::cl::desc("bytes per rank; 0: no budget"), llvm::cl::init(0)};
  Option<int64_t> nvmeMemory{*this, "nvme-mem", llvm::cl::desc("bytes per rank; 0: no budget"), llvm::cl::init(0)};
  Option<Overlap> overlap{*this, "overlap", llvm::cl::desc("memory for work beside work"),
                          llvm::cl::init(Overlap::slower), overlapValues()};
};

/// What --compile-to schedule shows: the zero level, ordered and placed.
void buildSchedulePipeline(mlir::OpPassManager &manager, const ScheduleOptions &options);
/// From there to the plan dialect.
void buildPlanPipeline(mlir::OpPassManager &manager);
void registerSchedulePipelines();

#define GEN_PASS_DECL
#include "compiler/schedule/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

} // namespace zc
