//===- Softmax.cpp - guards against fully masked rows -----------------------------===//
#include "compiler/import/raise/Mask.h"
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

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

/// c ? softmax(c ? x : low) : 0, as DeBERTa and models of speech write it: rows without a true c are zeros, and no
/// gradient goes through them. Either way round.
struct RaiseHiddenSoftmax : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    const bool keeps = splatOf(op.getRhs()) == 0.0;
    Value probabilities = keeps ? op.getLhs() : op.getRhs();
    auto softmax = probabilities.getDefiningOp<SoftmaxOp>();
    auto masked = softmax ? softmax.getInput().getDefiningOp<SelectOp>() : SelectOp();
    if (!masked || !softmax->hasOneUse() || masked.getCondition() != op.getCondition() ||
        !sameType(op.getResult(), probabilities) || (!keeps && splatOf(op.getLhs()) != 0.0))
      return failure();
    Value scores = keeps ? masked.getLhs() : masked.getRhs();
    auto low = splatOf(keeps ? masked.getRhs() : masked.getLhs());
    if (!low || !isLow(*low) || !sameType(scores, masked.getResult()))
      return failure();
    TensorBuilder on(rewriter, op.getLoc());
    Value hidden = on.scalar(-INFINITY, scores);
    Value input = keeps ? on.select(op.getCondition(), scores, hidden) : on.select(op.getCondition(), hidden, scores);
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, input, softmax.getAxis(), /*zero_masked=*/true);
    return success();
  }
};

} // namespace

void zc::importer::addSoftmaxPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGuardedSoftmax, RaiseHiddenSoftmax>(patterns.getContext());
}
