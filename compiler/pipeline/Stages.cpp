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

static void warnOfNoEffect(ModuleOp module, const CompileOptions &options, const ShardOptions &shard) {
  const bool sends = shard.dataDegree() > 1, gathers = shard.stage == 3 && sends;
  const bool isOneNode = shard.ranksPerNode == 0 || shard.ranksPerNode == shard.worldSize;
  const bool isOneWay = isOneNode || shard.ranksPerNode == shard.model;
  if (shard.offloadOptimizer == Offload::none && options.isGiven("offload-ratio"))
    module.emitWarning("without --offload-optimizer there is no update on the host: --offload-ratio changes nothing");
  if (shard.stage < 3 && (shard.quantizeWeights != WeightFormat::none || shard.hierarchical))
    module.emitWarning(
        "below stage 3 parameters are not gathered: --quantize-weights and --hierarchical change nothing");
  else if (!sends && (shard.quantizeWeights != WeightFormat::none || shard.hierarchical))
    module.emitWarning("with one data-parallel rank parameters are not gathered: --quantize-weights and --hierarchical "
                       "change nothing");
  else if (shard.hierarchical && isOneNode)
    module.emitWarning("with one node (--ranks-per-node) no gather leaves it: --hierarchical changes nothing");
  if (shard.hierarchicalCollectives && isOneWay)
    module.emitWarning("with one node, or one data-parallel rank in each (--ranks-per-node), there is one way: "
                       "--hierarchical-collectives changes nothing");
  if (!sends && shard.quantizeGradients != GradientFormat::none)
    module.emitWarning("with one data-parallel rank no gradient is sent: --quantize-gradients changes nothing");
  if (options.strategy.grad.precision == Precision::fp32 && shard.gradAccumDtype != GradAccumDtype::parameters)
    module.emitWarning("gradients of --precision fp32 are kept in fp32: --grad-accum-dtype changes nothing");
  if (shard.errorFeedback && shard.quantizeGradients == GradientFormat::none)
    module.emitWarning("without --quantize-gradients nothing is lost: --quantize-error-feedback changes nothing");
  if (shard.quantizeBlock != 0 && shard.quantizeGradients == GradientFormat::none &&
      shard.quantizeWeights == WeightFormat::none)
    module.emitWarning(
        "without --quantize-weights and --quantize-gradients nothing has scales: --quantize-block changes nothing");
  if (shard.residency > 0 && shard.quantizeWeights != WeightFormat::none)
    module.emitWarning("quantized weights are gathered each time: --residency changes nothing");
  else if (shard.residency > 0 && !gathers && shard.offloadParam == Offload::none)
    module.emitWarning("parameters are neither gathered (stage 3) nor offloaded: --residency changes nothing");
  if (shard.delayUpdate && shard.offloadParam == Offload::nvme)
    module.emitWarning("reading parameters from the file waits for what the update before reads: --delay-update hides "
                       "little with --offload-param nvme");
  if (shard.isVertical() && shard.accumulation < 2)
    module.emitWarning("with one micro-step --micro-order changes nothing");
}

static void build(PassManager &manager, Phase phase, const Strategy &strategy) {
  if (phase == Phase::grad)
    buildGradPipeline(manager, gradStageOf(strategy));
  if (phase == Phase::shard)
    buildShardPipeline(manager, strategy.shard);
  if (phase == Phase::schedule)
    buildSchedulePipeline(manager, strategy.schedule);
  if (phase == Phase::plan)
    buildPlanPipeline(manager);
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
    warnOfNoEffect(module, context.options, context.strategy.shard);
  build(manager, stage.phase, context.strategy);
  if (succeeded(manager.run(module)) && (context.isTrial || succeeded(graph::verifyModule(module))))
    return stage.phase == Phase::grad ? finishGrad(module, context) : Status::success();
  if (module->hasAttrOfType<plan::TierAttr>(placement::kShortTier))
    return context.emitted.error(Code::budget, 312);
  return context.emitted.error(stage.failure, stage.number);
}

Result<Budgets> zc::planMemory(ModuleOp imported, ModuleOp evaluation, const CompileOptions &options,
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
  Budgets needs;
  for (auto arena : module->getOps<plan::ArenaOp>())
    (arena.getTier() == plan::Tier::device ? needs.device
     : arena.getTier() == plan::Tier::host ? needs.host
                                           : needs.nvme) = static_cast<int64_t>(arena.getBytes());
  return needs;
}
