//===- RaiseComposites.cpp - the pass that runs the recognisers -----------------===//
#include "compiler/import/Passes.h"
#include "compiler/import/raise/Raise.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace zc {
#define GEN_PASS_DEF_RAISECOMPOSITES
#include "compiler/import/Passes.h.inc"
} // namespace zc

namespace {

struct RaiseComposites : zc::impl::RaiseCompositesBase<RaiseComposites> {
  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    zc::importer::addSimplifyPatterns(patterns);
    zc::importer::addLinearPatterns(patterns);
    zc::importer::addActivationPatterns(patterns);
    zc::importer::addNormPatterns(patterns);
    zc::importer::addSoftmaxPatterns(patterns);
    zc::importer::addAttentionPatterns(patterns);
    zc::importer::addLossPatterns(patterns);
    zc::importer::addRotationPatterns(patterns);
    mlir::GreedyRewriteConfig config;
    config.maxIterations = 64;
    // Programs are one block: what is dead goes one by one.
    config.enableRegionSimplification = mlir::GreedySimplifyRegionLevel::Disabled;
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns), config)))
      getOperation().emitError("the recognisers do not come to an end"), signalPassFailure();
  }
};

} // namespace
