//===- RaiseComposites.cpp - the pass that runs the recognisers -----------------===//
#include "compiler/import/Passes.h"
#include "compiler/import/raise/Raise.h"
#include "dialects/graph/Rewrite.h"

namespace zc {
#define GEN_PASS_DEF_RAISECOMPOSITES
#include "compiler/import/Passes.h.inc"
} // namespace zc

namespace {

struct RaiseComposites : zc::impl::RaiseCompositesBase<RaiseComposites> {
  void runOnOperation() override {
    // What stands in attention's way is simplified before its operands are transposed for it.
    if (failed(raise(/*turns=*/false)) || failed(raise(/*turns=*/true)))
      return getOperation().emitError("the recognisers do not come to an end"), signalPassFailure();
    getOperation().walk(zc::importer::remarkOnScores);
  }

  llvm::LogicalResult raise(bool turns) {
    mlir::RewritePatternSet patterns(&getContext());
    zc::importer::addSimplifyPatterns(patterns);
    zc::importer::addLinearPatterns(patterns);
    zc::importer::addActivationPatterns(patterns);
    zc::importer::addNormPatterns(patterns);
    zc::importer::addGroupNormPatterns(patterns);
    zc::importer::addExtremumPatterns(patterns);
    zc::importer::addSoftmaxPatterns(patterns);
    zc::importer::addHeadPatterns(patterns);
    zc::importer::addAttentionPatterns(patterns, turns);
    zc::importer::addLossPatterns(patterns);
    zc::importer::addRotationPatterns(patterns);
    return zc::graph::rewriteGreedily(getOperation(), std::move(patterns), /*maxSweeps=*/64);
  }
};

} // namespace
