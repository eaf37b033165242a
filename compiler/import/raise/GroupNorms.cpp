//===- GroupNorms.cpp - group norms made of norms over rows ----------------------===//
//
// Before opset 21 exporters write a group norm as x in the shape [N, groups, rest], a norm of each row of it
// (InstanceNormalization with scales of 1, or a decomposed one), the shape of x again, and then scale and bias.
//
//===----------------------------------------------------------------------===//
#include "dialects/graph/GroupNorms.h"
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// A norm of each [N, groups] of `input` without scale and bias.
struct RowsNorm {
  Value input;
  llvm::APFloat epsilon;
};

std::optional<RowsNorm> matchRows(Value value) {
  if (!value.hasOneUse() || !llvm::all_of(value.getDefiningOp()->getResults().drop_front(),
                                          [](Value statistic) { return statistic.use_empty(); }))
    return std::nullopt;
  if (auto norm = value.getDefiningOp<GroupNormOp>())
    if (norm.getGroups() == uint64_t(dimsOf(value)[1]) && isNear(splatOf(norm.getScale()), 1) &&
        splatOf(norm.getBias()) == 0.0)
      return RowsNorm{norm.getInput(), norm.getEpsilon()};
  if (auto norm = value.getDefiningOp<LayerNormOp>())
    if (norm.getAxis() == 2 && isNear(splatOf(norm.getScale()), 1) && !norm.getBias())
      return RowsNorm{norm.getInput(), norm.getEpsilon()};
  return std::nullopt;
}

Value splatVector(Value like, int64_t size, double value, PatternRewriter &rewriter) {
  auto type = RankedTensorType::get({size}, elementOf(like));
  auto elements = DenseElementsAttr::get(type, rewriter.getFloatAttr(type.getElementType(), value));
  return rewriter.create<ConstantOp>(like.getLoc(), elements);
}

struct RaiseGroupNorm : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    if (!isa_and_nonnull<GroupNormOp, LayerNormOp>(op.getInput().getDefiningOp()))
      return failure();
    auto rows = matchRows(op.getInput());
    auto split = rows ? rows->input.getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!split || !sameType(split.getInput(), op.getResult()))
      return failure();
    auto x = dimsOf(op.getResult()), parts = dimsOf(rows->input);
    if (x.size() < 3 || parts.size() < 2 || x[0] != parts[0] || parts[1] < 1 || x[1] % parts[1] != 0)
      return failure();
    int64_t inner = 1;
    for (int64_t d : x.drop_front(2))
      inner *= d;
    // A norm of each row of [N, rows, width] is a layer norm.
    const bool isOfRows = isa<LayerNormOp>(op.getInput().getDefiningOp()) && x.size() == 3 && x[1] == parts[1];
    if (inner < kFewestOfChannel || isOfRows)
      return failure();
    Value scale = splatVector(op.getResult(), x[1], 1, rewriter), bias = splatVector(op.getResult(), x[1], 0, rewriter);
    auto norm =
        rewriter.create<GroupNormOp>(op.getLoc(), split.getInput(), scale, bias, parts[1], rows->epsilon, false);
    rewriter.replaceOp(op, norm.getResult());
    return success();
  }
};

/// The norm that `value` is, if nothing else needs it; its bias is none.
GroupNormOp matchUnbiased(Value value) {
  auto norm = value.getDefiningOp<GroupNormOp>();
  bool isPlain = norm && value == norm.getResult() && value.hasOneUse() && norm.getMean().use_empty() &&
                 norm.getVariance().use_empty() && splatOf(norm.getBias()) == 0.0;
  return isPlain ? norm : GroupNormOp();
}

/// `value`, which broadcasts over all but the channels of `like`, as a vector of channels.
Value asChannels(Value value, Value like, PatternRewriter &rewriter) {
  auto dims = dimsOf(value), whole = dimsOf(like);
  if (dims.size() > whole.size() || elementOf(value) != elementOf(like))
    return {};
  if (auto number = splatOf(value)) // of norms without scale and bias torch writes them as one number
    return splatVector(value, whole[1], *number, rewriter);
  for (size_t d = 0; d < whole.size(); ++d) {
    const size_t missing = whole.size() - dims.size();
    if ((d < missing ? 1 : dims[d - missing]) != (d == 1 ? whole[1] : 1))
      return {};
  }
  return rewriter.create<ReshapeOp>(value.getLoc(), value, whole.slice(1, 1));
}

/// group_norm * scale
struct FoldScaleIntoGroupNorm : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value value, Value scale) {
      GroupNormOp norm = matchUnbiased(value);
      if (!norm || !isNear(splatOf(norm.getScale()), 1) || !sameType(value, op.getResult()))
        return false;
      Value channels = asChannels(scale, value, rewriter);
      if (channels)
        rewriter.replaceOp(op, rewriter
                                   .create<GroupNormOp>(norm.getLoc(), norm.getInput(), channels, norm.getBias(),
                                                        norm.getGroups(), norm.getEpsilon(), false)
                                   .getResult());
      return bool(channels);
    }));
  }
};

/// group_norm + bias
struct FoldBiasIntoGroupNorm : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value value, Value bias) {
      GroupNormOp norm = matchUnbiased(value);
      if (!norm || !sameType(value, op.getResult()))
        return false;
      Value channels = asChannels(bias, value, rewriter);
      if (channels)
        rewriter.replaceOp(op, rewriter
                                   .create<GroupNormOp>(norm.getLoc(), norm.getInput(), norm.getScale(), channels,
                                                        norm.getGroups(), norm.getEpsilon(), false)
                                   .getResult());
      return bool(channels);
    }));
  }
};

} // namespace

void zc::importer::addGroupNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGroupNorm, FoldScaleIntoGroupNorm, FoldBiasIntoGroupNorm>(patterns.getContext());
}
