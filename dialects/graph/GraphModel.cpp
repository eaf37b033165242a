//===- GraphModel.cpp - result types and derivatives of the model axis' ops --------------===//
#include "dialects/graph/Gradient.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace zc::graph;

//===-- result types ---------------------------------------------------------===//

ZC_INFER(AllReduceOp) { return Infer(location, types).result(adaptor.getInput().getType()); }
ZC_INFER(DivergeOp) { return Infer(location, types).result(adaptor.getInput().getType()); }
int DivergeOp::getViewOperand() { return 0; }

/// [axis_c1], [model_c1]: the parts of the ranks are along a dimension of the tensor.
static LogicalResult checkParts(const Infer &infer, Value input, int64_t dim, int64_t ranks) {
  if (failed(infer.axisInRank(dim, tensorOf(input).getRank())))
    return failure();
  if (ranks < 1 || ranks > 65536)
    return infer.error("[model_c1] " + Twine(ranks) + " ranks are not 1 to 65536");
  return success();
}

/// [model_c2]: one of `ranks` equal parts.
static LogicalResult inferPart(const Infer &infer, SmallVectorImpl<Type> &types, Value input, int64_t dim,
                               int64_t ranks) {
  if (failed(checkParts(infer, input, dim, ranks)))
    return failure();
  Shape shape(shapeOf(input));
  if (shape[dim] % ranks != 0)
    return infer.error("[model_c2] " + Twine(ranks) + " ranks do not divide dimension " + Twine(dim) + " of " +
                       toText(shape));
  shape[dim] /= ranks;
  types.push_back(RankedTensorType::get(shape, elementOf(input)));
  return success();
}

ZC_INFER(AllGatherOp) {
  Infer infer(location, types);
  int64_t dim = adaptor.getDim(), ranks = adaptor.getRanks();
  if (failed(checkParts(infer, adaptor.getInput(), dim, ranks)))
    return failure();
  Shape shape(shapeOf(adaptor.getInput()));
  shape[dim] *= ranks;
  return infer.result(shape, elementOf(adaptor.getInput()));
}

ZC_INFER(AllSliceOp) {
  return inferPart(Infer(location, types), types, adaptor.getInput(), adaptor.getDim(), adaptor.getRanks());
}
ZC_INFER(ReduceScatterOp) {
  return inferPart(Infer(location, types), types, adaptor.getInput(), adaptor.getDim(), adaptor.getRanks());
}

ZC_INFER(RankOffsetOp) {
  Infer infer(location, types);
  auto type = cast<RankedTensorType>(adaptor.getType());
  if (type.getRank() != 0 || !(type.getElementType().isInteger(64) || type.getElementType().isInteger(32)))
    return infer.error("[rank_offset_c1] type " + toText(type) + " is no scalar i64 or i32");
  return infer.result(type);
}

//===-- derivatives ----------------------------------------------------------===//

ZC_GRADIENT(AllReduceOp) {
  if (!getMax())
    operandGrads[0] = resultGrads[0];
  return success();
}

ZC_GRADIENT(DivergeOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<AllReduceOp>(resultGrads[0], /*max=*/false);
  return success();
}

ZC_GRADIENT(AllGatherOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<AllSliceOp>(resultGrads[0], getDim(), getRanks());
  return success();
}

ZC_GRADIENT(AllSliceOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<AllGatherOp>(resultGrads[0], getDim(), getRanks());
  return success();
}

ZC_GRADIENT(ReduceScatterOp) {
  operandGrads[0] = GradientBuilder(builder, *this).make<AllGatherOp>(resultGrads[0], getDim(), getRanks());
  return success();
}

//===-- canonical forms ------------------------------------------------------===//

namespace {

/// all_slice(all_reduce(x)) = reduce_scatter(x): the gradient of what is gathered and then diverges. Also of a sum that
/// is reshaped, as where the parts are runs inside a dimension.
struct ScatterSum : OpRewritePattern<AllSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AllSliceOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
    auto sum = (reshape ? reshape.getInput() : op.getInput()).getDefiningOp<AllReduceOp>();
    if (!sum || sum.getMax() || !sum->hasOneUse() || (reshape && !reshape->hasOneUse()))
      return failure();
    Value input = sum.getInput();
    if (reshape)
      input = rewriter.create<ReshapeOp>(reshape.getLoc(), input, reshape.getShape());
    rewriter.replaceOpWithNewOp<ReduceScatterOp>(op, input, op.getDim(), op.getRanks());
    return success();
  }
};

/// all_slice(all_gather(x)) = x.
struct OwnPart : OpRewritePattern<AllSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AllSliceOp op, PatternRewriter &rewriter) const override {
    auto gather = op.getInput().getDefiningOp<AllGatherOp>();
    if (!gather || gather.getDim() != op.getDim())
      return failure();
    rewriter.replaceOp(op, gather.getInput());
    return success();
  }
};

} // namespace

void AllSliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ScatterSum, OwnPart>(context);
}
