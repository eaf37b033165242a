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
    mlir::RewritePatternSet patterns(&getContext());
    zc::importer::addSimplifyPatterns(patterns);
    zc::importer::addLinearPatterns(patterns);
    zc::importer::addActivationPatterns(patterns);
    zc::importer::addNormPatterns(patterns);
    zc::importer::addSoftmaxPatterns(patterns);
    zc::importer::addHeadPatterns(patterns);
    zc::importer::addAttentionPatterns(patterns);
    zc::importer::addLossPatterns(patterns);
    zc::importer::addRotationPatterns(patterns);
    if (failed(zc::graph::rewriteGreedily(getOperation(), std::move(patterns), /*maxSweeps=*/64)))
      return getOperation().emitError("the recognisers do not come to an end"), signalPassFailure();
    getOperation().walk(zc::importer::remarkOnScores);
  }
};

} // namespace
