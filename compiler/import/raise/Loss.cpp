//===- Loss.cpp - cross-entropy from log-softmax and gather -----------------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// -mean or -sum of log_softmax(x)[label], the sign before or after the reduction.
struct RaiseCrossEntropy : RewritePattern {
  RaiseCrossEntropy(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<NegOp, ReduceMeanOp, ReduceSumOp>(op) || !tensorOf(op->getResult(0)).getElementType().isF32() ||
        tensorOf(op->getResult(0)).getNumElements() != 1)
      return failure();
    int negations = 0;
    Operation *reduction = nullptr;
    Value value = op->getResult(0);
    while (Operation *step = value.getDefiningOp()) {
      if (value != op->getResult(0) && !value.hasOneUse())
        return failure();
      if (isa<NegOp>(step))
        ++negations;
      else if (isa<ReduceMeanOp, ReduceSumOp>(step) && !reduction)
        reduction = step;
      else if (!isa<ReshapeOp>(step))
        break;
      value = step->getOperand(0);
    }
    auto gather = value.getDefiningOp<GatherElementsOp>();
    if (!gather || negations != 1 || !reduction || tensorOf(reduction->getResult(0)).getNumElements() != 1)
      return failure();
    return raise(op, gather, isa<ReduceSumOp>(reduction), rewriter);
  }

  static LogicalResult raise(Operation *op, GatherElementsOp gather, bool sum, PatternRewriter &rewriter) {
    auto logSoftmax = gather.getData().getDefiningOp<LogSoftmaxOp>();
    auto dims = dimsOf(gather.getData());
    int64_t last = static_cast<int64_t>(dims.size()) - 1;
    if (!logSoftmax || logSoftmax.getAxis() != static_cast<uint64_t>(last) ||
        gather.getAxis() != static_cast<uint64_t>(last) || dimsOf(gather.getIndices()).back() != 1 ||
        dimsOf(gather.getIndices()).drop_back() != dims.drop_back())
      return failure();
    int64_t classes = dims.back(), rows = tensorOf(gather.getData()).getNumElements() / std::max<int64_t>(classes, 1);
    Location loc = op->getLoc();
    Value logits = rewriter.create<ReshapeOp>(loc, logSoftmax.getInput(), llvm::ArrayRef<int64_t>{rows, classes});
    Value labels = rewriter.create<ReshapeOp>(loc, gather.getIndices(), llvm::ArrayRef<int64_t>{rows});
    // Nothing is ignored: no label has this value.
    auto loss = rewriter.create<CrossEntropyOp>(loc, logits, labels, INT64_MIN, sum);
    auto shape = dimsOf(op->getResult(0));
    rewriter.replaceOp(op, rewriter.create<ReshapeOp>(loc, loss.getLoss(), shape).getResult());
    return success();
  }
};

} // namespace

void zc::importer::addLossPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseCrossEntropy>(patterns.getContext());
}
