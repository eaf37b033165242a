//===- Pipeline.cpp - the grad stage -----------------------------------------===//
#include "compiler/grad/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace zc {

#define GEN_PASS_REGISTRATION
#include "compiler/grad/Passes.h.inc"

static void buildGradPipeline(OpPassManager &manager, std::unique_ptr<Pass> precision, std::unique_ptr<Pass> lossMean,
                              std::unique_ptr<Pass> differentiate, std::unique_ptr<Pass> checkpoint,
                              std::unique_ptr<Pass> optimizer) {
  // Import hands over graph operations only; everything below relies on it.
  manager.addPass(createVerifyGraph());
  // Before the derivatives, so that gradients take the types of the values they belong to.
  manager.addPass(std::move(precision));
  // Casts that cancel and chains of views go first: each would be differentiated.
  manager.addPass(createCanonicalizerPass());
  // Says what is differentiated.
  manager.addPass(std::move(lossMean));
  manager.addPass(std::move(differentiate));
  // Drops the forward of outputs that are no longer returned, and constants and recomputations the derivatives repeat.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // After the last CSE, which would join each recomputation with its original again.
  manager.addPass(std::move(checkpoint));
  // After differentiate, which freezes parameters that get no gradient: those have no update.
  manager.addPass(std::move(optimizer));
  manager.addPass(createVerifyGraph());
}

static void buildForwardPipeline(OpPassManager &manager, std::unique_ptr<Pass> precision,
                                 std::unique_ptr<Pass> lossMean) {
  manager.addPass(createVerifyGraph());
  manager.addPass(std::move(precision));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(std::move(lossMean));
  manager.addPass(createCSEPass());
  // Last: before, what is returned is what keeps the rest alive.
  manager.addPass(createForwardOnly());
  manager.addPass(createVerifyGraph());
}

void buildGradPipeline(OpPassManager &manager, const GradOptions &options) {
  if (options.forwardOnly)
    return buildForwardPipeline(manager, createConvertPrecision(options.precision), createLossMean(options.lossMean));
  buildGradPipeline(manager, createConvertPrecision(options.precision), createLossMean(options.lossMean),
                    createDifferentiate(options.differentiate), createCheckpointActivations(options.checkpoint),
                    createAppendOptimizer(options.optimizer));
}

namespace {
/// The option strings are those of the passes, so that no option is declared twice.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> precision{*this, "precision", llvm::cl::desc("options of convert-precision")};
  Option<std::string> lossMean{*this, "loss-mean", llvm::cl::desc("options of loss-mean")};
  Option<std::string> differentiate{*this, "differentiate", llvm::cl::desc("options of differentiate")};
  Option<std::string> checkpoint{*this, "checkpoint", llvm::cl::desc("options of checkpoint-activations")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::desc("options of append-optimizer")};
  Option<bool> forwardOnly{*this, "forward-only", llvm::cl::desc("no backward, no optimizer"), llvm::cl::init(false)};
};
} // namespace

void registerGradPipeline() {
  registerZcGradPasses();
  auto build = [](OpPassManager &manager, StringRef text, function_ref<LogicalResult(const Twine &)> error) {
    PipelineOptions options;
    auto precision = createConvertPrecision(), lossMean = createLossMean(), differentiate = createDifferentiate(),
         checkpoint = createCheckpointActivations(), optimizer = createAppendOptimizer();
    if (failed(options.parseFromString(text)) || failed(precision->initializeOptions(options.precision, error)) ||
        failed(lossMean->initializeOptions(options.lossMean, error)) ||
        failed(differentiate->initializeOptions(options.differentiate, error)) ||
        failed(checkpoint->initializeOptions(options.checkpoint, error)) ||
        failed(optimizer->initializeOptions(options.optimizer, error)))
      return failure();
    if (options.forwardOnly)
      return buildForwardPipeline(manager, std::move(precision), std::move(lossMean)), success();
    buildGradPipeline(manager, std::move(precision), std::move(lossMean), std::move(differentiate),
                      std::move(checkpoint), std::move(optimizer));
    return success();
  };
  registerPassPipeline("zero-grad-pipeline", "forward graph to training step: precision, backward, optimizer", build,
                       [](function_ref<void(const detail::PassOptions &)> handler) { handler(PipelineOptions()); });
}

} // namespace zc
