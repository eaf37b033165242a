//===- Simplify.cpp - what stands in the way of the recognisers -----------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// transpose(transpose(x)) is one transpose.
struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    llvm::SmallVector<int64_t> permutation;
    for (int64_t d : op.getPermutation())
      permutation.push_back(inner.getPermutation()[d]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getInput(), permutation);
    return success();
  }
};

/// transpose(x) * c = transpose(x * c), so that the transpose meets the matmul.
struct SinkTransposeBelowScale : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    bool onlyProducts = llvm::all_of(op->getUsers(), [](Operation *user) { return isa<MatmulOp>(user); });
    if (op->use_empty() || !onlyProducts)
      return failure();
    bool done = eitherOrder(op, [&](Value x, Value c) {
      auto transpose = x.getDefiningOp<TransposeOp>();
      if (!transpose || !splatOf(c) || tensorOf(c).getNumElements() != 1 || !sameType(x, op.getResult()))
        return false;
      auto scaled = rewriter.create<MulOp>(op.getLoc(), transpose.getInput(), c);
      rewriter.replaceOpWithNewOp<TransposeOp>(op, scaled, transpose.getPermutation());
      return true;
    });
    return success(done);
  }
};

/// x and true = x
struct DropTrue : OpRewritePattern<AndOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AndOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value x, Value t) {
      if (!isTrue(t) || !sameType(x, op.getResult()))
        return false;
      rewriter.replaceOp(op, x);
      return true;
    }));
  }
};

/// (c ? a : b) == k for numbers a, b, k of which one equals k is c or its negation (torch's causal masks through
/// Trilu).
struct SimplifyEqualOfSelect : OpRewritePattern<EqualOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EqualOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value chosen, Value number) {
      auto select = chosen.getDefiningOp<SelectOp>();
      auto k = splatOf(number);
      auto a = select && k ? splatOf(select.getLhs()) : std::nullopt;
      auto b = a ? splatOf(select.getRhs()) : std::nullopt;
      if (!b || (*a == *k) == (*b == *k) || !sameType(select.getCondition(), op.getResult()))
        return false;
      if (*a == *k)
        rewriter.replaceOp(op, select.getCondition());
      else
        rewriter.replaceOpWithNewOp<NotOp>(op, select.getCondition());
      return true;
    }));
  }
};

/// not c ? a : b is c ? b : a
struct DropNotInSelect : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getCondition().getDefiningOp<NotOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<SelectOp>(op, inner.getInput(), op.getRhs(), op.getLhs());
    return success();
  }
};

} // namespace

void zc::importer::addSimplifyPatterns(RewritePatternSet &patterns) {
  patterns.add<ComposeTransposes, SinkTransposeBelowScale, DropTrue, SimplifyEqualOfSelect, DropNotInSelect>(
      patterns.getContext());
}
