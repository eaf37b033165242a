//===- Patterns.cpp - canonical forms beyond folding ---------------------------===//
#include "dialects/graph/Infer.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace zc::graph;

namespace {

/// Where slice_grad puts its operand, if it is one block.
struct Piece {
  SliceGradOp op;
  ArrayRef<int64_t> offsets, sizes;

  static std::optional<Piece> of(Value value) {
    auto op = value.getDefiningOp<SliceGradOp>();
    if (!op || !op->hasOneUse() || llvm::any_of(op.getStrides(), [](int64_t stride) { return stride != 1; }))
      return std::nullopt;
    return Piece{op, op.getOffsets(), shapeOf(op.getGrad())};
  }

  /// The axis along which `next` begins where this ends, in all others being alike.
  std::optional<int64_t> axisTo(const Piece &next) const {
    std::optional<int64_t> axis;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (offsets[i] == next.offsets[i] && sizes[i] == next.sizes[i])
        continue;
      if (axis || offsets[i] + sizes[i] != next.offsets[i])
        return std::nullopt;
      axis = i;
    }
    return axis;
  }
};

/// slice_grad(a) + slice_grad(b) of neighbouring blocks = slice_grad(concat(a, b)). What a split leaves in the backward
/// (queries, keys and values; halves of a rotary embedding): tensors full of zeros that are then added.
struct JoinNeighbours : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    std::optional<Piece> low = Piece::of(add.getLhs()), high = Piece::of(add.getRhs());
    if (!low || !high || add.getLhs().getType() != add.getRhs().getType())
      return failure();
    std::optional<int64_t> axis = low->axisTo(*high);
    if (!axis) {
      std::swap(low, high);
      axis = low->axisTo(*high);
    }
    if (!axis)
      return failure();
    Value joined =
        rewriter.create<ConcatOp>(add.getLoc(), ValueRange{low->op.getGrad(), high->op.getGrad()}, uint64_t(*axis));
    rewriter.replaceOpWithNewOp<SliceGradOp>(add, joined, low->op.getShape(), low->offsets, low->op.getStrides());
    return success();
  }
};

/// concat(concat(a, b), c) along one axis = concat(a, b, c).
struct FlattenConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> inputs;
    for (Value input : op.getInputs()) {
      auto inner = input.getDefiningOp<ConcatOp>();
      if (inner && inner->hasOneUse() && inner.getAxis() == op.getAxis())
        llvm::append_range(inputs, inner.getInputs());
      else
        inputs.push_back(input);
    }
    if (inputs.size() == op.getInputs().size())
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputsMutable().assign(inputs); });
    return success();
  }
};

} // namespace

void AddOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<JoinNeighbours>(context);
}

void ConcatOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FlattenConcat>(context);
}
