//===- Pipeline.cpp - the grad stage -----------------------------------------===//
#include "compiler/grad/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace zc {

#define GEN_PASS_REGISTRATION
#include "compiler/grad/Passes.h.inc"

/// Canonicalization of programs of one block: what is dead goes one by one, without a search over all blocks.
static std::unique_ptr<Pass> createFolding() {
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  return createCanonicalizerPass(config);
}

static void buildForwardPipeline(OpPassManager &manager, const GradOptions &options) {
  manager.addPass(createVerifyGraph());
  manager.addPass(createConvertPrecision(options));
  manager.addPass(createFolding());
  manager.addPass(createLossMean(options));
  manager.addPass(createCSEPass());
  // Last: before, what is returned is what keeps the rest alive.
  manager.addPass(createForwardOnly());
  manager.addPass(createVerifyGraph());
}

void buildGradPipeline(OpPassManager &manager, const GradOptions &options) {
  if (options.forwardOnly)
    return buildForwardPipeline(manager, options);
  // Import hands over graph operations only; everything below relies on it.
  manager.addPass(createVerifyGraph());
  // Before the derivatives, so that gradients take the types of the values they belong to.
  manager.addPass(createConvertPrecision(options));
  // Casts that cancel and chains of views go first: each would be differentiated.
  manager.addPass(createFolding());
  // Says what is differentiated.
  manager.addPass(createLossMean(options));
  manager.addPass(createDifferentiate(options));
  // Drops the forward of outputs that are no longer returned, and constants and recomputations the derivatives repeat.
  manager.addPass(createFolding());
  manager.addPass(createCSEPass());
  // After the last CSE, which would join each recomputation with its original again.
  manager.addPass(createCheckpointActivations(options));
  // After differentiate, which freezes parameters that get no gradient: those have no update.
  manager.addPass(createAppendOptimizer(options));
  manager.addPass(createVerifyGraph());
}

void registerGradPipeline() {
  registerZcGradPasses();
  registerStage("zero-grad-pipeline", "forward graph to training step: precision, backward, optimizer",
                buildGradPipeline);
}

} // namespace zc
