//===- Stages.cpp - one stage after the other ---------------------------------------------===//

#include "compiler/pipeline/Stages.h"
#include "compiler/grad/Passes.h"
#include "compiler/pipeline/Evaluation.h"
#include "compiler/pipeline/OwnUpdate.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"
#include "compiler/shard/Passes.h"
#include "dialects/graph/VerifyModule.h"
#include "dialects/plan/Plan.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace zc;

static void build(PassManager &manager, Phase phase, const Strategy &strategy) {
  if (phase == Phase::grad)
    buildGradPipeline(manager, gradStageOf(strategy));
  if (phase == Phase::shard)
    buildShardPipeline(manager, strategy.shard);
  if (phase == Phase::schedule)
    buildSchedulePipeline(manager, strategy.schedule);
  if (phase == Phase::plan)
    buildPlanPipeline(manager, strategy.schedule);
}

static Status finishGrad(ModuleOp module, const StageContext &context) {
  ZC_RETURN_IF_ERROR(recordOptimizer(module, context.strategy.grad, context.options.model));
  return context.evaluation ? addEvaluation(module, context.evaluation, context.options.model) : Status::success();
}

Status zc::runStage(const Stage &stage, ModuleOp module, const StageContext &context) {
  if (stage.phase == Phase::import)
    return Status::success();
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // a stage is verified at its end; of trials, what is kept is compiled once more
  if (!context.isTrial) {
    if (failed(applyPassManagerCLOptions(manager)))
      return makeError(Code::usage, 305, "MLIR's pass manager flags contradict each other");
    applyDefaultTimingPassManagerCLOptions(manager);
  }
  if (stage.phase == Phase::shard)
    for (const std::string &warning : warningsOfNoEffect(context.options, context.strategy))
      module.emitWarning(warning);
  build(manager, stage.phase, context.strategy);
  if (succeeded(manager.run(module)) && (context.isTrial || succeeded(graph::verifyModule(module))))
    return stage.phase == Phase::grad ? finishGrad(module, context) : Status::success();
  if (module->hasAttrOfType<plan::TierAttr>(placement::kShortTier))
    return context.emitted.error(Code::budget, 312);
  return context.emitted.error(stage.failure, stage.number);
}

Result<Planned> zc::planMemory(ModuleOp imported, ModuleOp evaluation, const CompileOptions &options,
                               const Strategy &strategy) {
  const DiagnosticCollector emitted(*imported.getContext(), options.model);
  OwningOpRef<ModuleOp> module(imported.clone());
  const StageContext context{options, strategy, emitted, evaluation, /*isTrial=*/true};
  for (const Stage &stage : kStages) {
    if (stage.phase == Phase::plan)
      break;
    if (Status status = runStage(stage, *module, context); !status.ok() && status.error().code != Code::budget)
      return status.error();
  }
  Planned planned;
  for (auto arena : module->getOps<plan::ArenaOp>())
    (arena.getTier() == plan::Tier::device ? planned.needs.device
     : arena.getTier() == plan::Tier::host ? planned.needs.host
                                           : planned.needs.nvme) = static_cast<int64_t>(arena.getBytes());
  module->walk([&](Operation *) { ++planned.operations; });
  return planned;
}
