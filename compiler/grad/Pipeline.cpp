//===- Pipeline.cpp - the grad stage -----------------------------------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/ShardingSearch.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_REGISTRATION
#include "compiler/grad/Passes.h.inc"

/// What training and forward-only steps have in common: the forward as it will be computed.
static void buildForward(OpPassManager &manager, const GradStage &options) {
  // Import hands over graph operations only; everything below relies on it.
  manager.addPass(createVerifyGraph());
  // Before the derivatives, so that gradients take the types of the values they belong to.
  manager.addPass(createConvertPrecision(options));
  // Casts that cancel and chains of views go first: each would be differentiated.
  manager.addPass(createSimplify());
  // Says what is differentiated.
  manager.addPass(createLossMean(options));
  // While tables and classes are whole.
  manager.addPass(createInferRanges());
  // While all attention is one operation, whose heads can be counted.
  if (options.modelRanks > 1)
    manager.addPass(createRepeatKeys(options));
  // What does not run on a GPU's tensor cores is slow as one operation.
  if (options.target == Target::cuda)
    manager.addPass(createExpandDropout(options));
  if (options.modelRanks > 1) {
    // Views that several operations have of one tensor become one: its gradient is summed over ranks once.
    manager.addPass(createEliminateCommon());
  }
}

static void buildForwardPipeline(OpPassManager &manager, const GradStage &options) {
  buildForward(manager, options);
  manager.addPass(createShardTensors(options));
  manager.addPass(createEliminateCommon());
  // On what each rank computes: a head whose classes are cut is none.
  manager.addPass(createFuseHead(options));
  manager.addPass(createPropagateLayout(options));
  // Before, what is returned is what keeps the rest alive.
  manager.addPass(createForwardOnly());
  manager.addPass(createHoistReversals(options));
  // On all that reads a value, so that no copy is left for somebody who was not asked.
  manager.addPass(createFoldViews(options));
  // Last, on what is there.
  manager.addPass(createSplitSums(options));
  manager.addPass(createSplitDropout(options));
  manager.addPass(createFuseElementwise(options));
  // What programs read and write.
  manager.addPass(createSplitRows(options));
  manager.addPass(createFoldViews(options));
  manager.addPass(createVerifyGraph());
}

void buildGradPipeline(OpPassManager &manager, const GradStage &options) {
  if (options.forwardOnly)
    return buildForwardPipeline(manager, options);
  buildForward(manager, options);
  // After loss-mean, which knows losses by what they are whole; before the derivatives, which are those of the parts.
  manager.addPass(createShardTensors(options));
  // On what each rank computes, where a head whose classes are cut is none; its derivative is one operation as well.
  manager.addPass(createFuseHead(options));
  manager.addPass(createDifferentiate(options));
  // Before the forward of the loss could be taken for what the backward needs.
  manager.addPass(createJoinLoss());
  // Drops the forward of outputs that are no longer returned, and constants and recomputations the derivatives repeat.
  manager.addPass(createSimplify());
  manager.addPass(createEliminateCommon());
  // On forward and backward, which share their activations; recomputations are of what is computed in the end.
  manager.addPass(createPropagateLayout(options));
  // After the last eliminate-common, which would join each recomputation with its original again.
  manager.addPass(createCheckpointActivations(options));
  // After differentiate, which freezes parameters that get no gradient: those have no update.
  manager.addPass(createAppendOptimizer(options));
  manager.addPass(createHoistReversals(options));
  // On what is recomputed too: each copy that is left out is one less to weigh. Before programs hide who reads what.
  manager.addPass(createFoldViews(options));
  // Last: what is differentiated, cut, recomputed is single operations.
  manager.addPass(createSplitSums(options));
  manager.addPass(createFuseGatherGrad(options));
  // Before a program has the gelu's gradient.
  manager.addPass(createFuseEpilogues(options));
  manager.addPass(createSplitDropout(options));
  manager.addPass(createFuseElementwise(options));
  // What programs read and write.
  manager.addPass(createSplitRows(options));
  manager.addPass(createFoldViews(options));
  manager.addPass(createVerifyGraph());
}

FailureOr<std::string> explainSharding(ModuleOp module, const GradStage &options) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  buildForward(manager, options);
  if (failed(manager.run(*copy)))
    return failure();
  ProgramOp program = programOf(*copy, Phase::micro);
  return program ? explain(findSharding(program, options.modelRanks), options.modelRanks) : std::string();
}

void registerGradPipeline() {
  registerZcGradPasses();
  registerStage("zero-grad-pipeline", "forward graph to training step: precision, backward, optimizer",
                buildGradPipeline);
}

} // namespace zc
