//===- Extremum.cpp - a largest element beside its index ---------------------------===//
//
// torch's `value, index = x.max(dim)` is written as ReduceMax and ArgMax of one tensor. Its gradient goes to the
// element at that index, where a maximum alone (amax) would share it among equal ones.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// The index of what `op` reduces to, if the program has it.
template <typename OpT> ArgMaxOp indexOf(OpT op) {
  constexpr bool smallest = std::is_same_v<OpT, ReduceMinOp>;
  for (Operation *user : op.getInput().getUsers())
    if (auto index = dyn_cast<ArgMaxOp>(user))
      if (static_cast<int64_t>(index.getAxis()) == op.getAxes()[0] && index.getSmallest() == smallest)
        return index;
  return {};
}

/// The element at that index.
template <typename OpT> struct PickExtremum : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    Value x = op.getInput();
    if (op.getAxes().size() != 1 || !isa<FloatType>(tensorOf(x).getElementType()))
      return failure();
    ArgMaxOp index = indexOf(op);
    if (!index)
      return failure();
    const int64_t axis = op.getAxes()[0];
    llvm::SmallVector<int64_t> kept(dimsOf(x));
    kept[axis] = 1;
    rewriter.setInsertionPointAfterValue(x); // in front of both
    Value first = rewriter.create<ArgMaxOp>(index.getLoc(), x, axis, index.getSmallest(), index.getLast());
    rewriter.replaceOp(index, first);
    rewriter.setInsertionPoint(op);
    Value column = rewriter.create<ReshapeOp>(op.getLoc(), first, kept);
    Value picked = rewriter.create<GatherElementsOp>(op.getLoc(), x, column, axis);
    if (!op.getKeepdims())
      picked = rewriter.create<ReshapeOp>(op.getLoc(), picked, dimsOf(op.getResult()));
    rewriter.replaceOp(op, picked);
    return success();
  }
};

} // namespace

void zc::importer::addExtremumPatterns(RewritePatternSet &patterns) {
  patterns.add<PickExtremum<ReduceMaxOp>, PickExtremum<ReduceMinOp>>(patterns.getContext());
}
