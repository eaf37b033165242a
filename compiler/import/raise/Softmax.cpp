//===- Softmax.cpp - the exporters' guard against fully masked rows ---------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// select(is_nan(s), 0, s): the forward is safe, but a gradient through it is not (0 * NaN), so the pair is one op.
struct RaiseGuardedSoftmax : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto isNan = op.getCondition().getDefiningOp<IsNanOp>();
    auto softmax = op.getRhs().getDefiningOp<SoftmaxOp>();
    if (!isNan || !softmax || isNan.getInput() != softmax.getResult() || splatOf(op.getLhs()) != 0.0 ||
        !sameType(op.getResult(), softmax.getResult()))
      return failure();
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, softmax.getInput(), softmax.getAxis(), /*zero_masked=*/true);
    return success();
  }
};

} // namespace

void zc::importer::addSoftmaxPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGuardedSoftmax>(patterns.getContext());
}
