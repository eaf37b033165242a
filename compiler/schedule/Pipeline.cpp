//===- Pipeline.cpp - zero-schedule-pipeline and zero-plan-pipeline ----------------===//

#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

void zc::buildSchedulePipeline(mlir::OpPassManager &manager, const ScheduleOptions &options) {
  // Single operations, while what is theirs is not yet decided; weighs them by what they take.
  if (options.overlapTensorParallel != TensorParallelOverlap::off)
    manager.addPass(createOverlapTensorParallel(options));
  // Queues and durations first: prefetch and order weigh communication against compute.
  manager.addPass(createAssignQueues());
  manager.addPass(createJoinUpdate(options));
  // Before order, which lets no gather run ahead of the place it is given here.
  manager.addPass(createPrefetch(options));
  manager.addPass(createOrder(options));
  // After order: lifetimes are positions in the final order.
  manager.addPass(createPlanMemory(options));
}

void zc::buildPlanPipeline(mlir::OpPassManager &manager, const ScheduleOptions &options) {
  // What the plan leaves of the device, once it is known that it fits: nothing that is tried out needs to know.
  manager.addPass(createKeepPacked(options));
  // After memory: two steps that share bytes for whatever reason must be ordered.
  manager.addPass(createLowerToPlan());
  manager.addPass(createVerifyPlanLevel());
}

void zc::registerSchedulePipelines() {
  registerZcSchedulePasses();
  registerStage("zero-schedule-pipeline", "zero level: queues, order, memory", buildSchedulePipeline);
  registerStage("zero-plan-pipeline", "zero level, placed, to plan", buildPlanPipeline);
}
