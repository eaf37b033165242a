//===- Norms.cpp - decomposed LayerNorm and RMSNorm, standard deviations -----------===//
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// x / sqrt(mean x^2 + epsilon) over dimensions axis..
struct Normalized {
  Value x;
  double epsilon;
  int64_t axis;
};

bool isSquareOf(Value square, Value x) {
  Factors factors = factorsOf(square);
  return factors.scalar == 1 && factors.values.size() == 2 && factors.values[0] == x && factors.values[1] == x;
}

/// `root` = sqrt(mean x^2 + epsilon)
std::optional<Normalized> matchRoot(Value root, Value x) {
  auto sqrt = root.getDefiningOp<SqrtOp>();
  auto sum = sqrt ? addedConstant(sqrt.getInput()) : std::nullopt;
  auto axis = sum ? meanOverTail(sum->value, Value()) : std::nullopt;
  if (!axis || !isSquareOf(sum->value.getDefiningOp<ReduceMeanOp>().getInput(), x))
    return std::nullopt;
  return Normalized{x, sum->constant, *axis};
}

/// x / root, x * (1 / root)
std::optional<Normalized> matchNormalized(Value value) {
  if (auto div = value.getDefiningOp<DivOp>())
    return matchRoot(div.getRhs(), div.getLhs());
  auto mul = value.getDefiningOp<MulOp>();
  if (!mul)
    return std::nullopt;
  std::optional<Normalized> found;
  eitherOrder(mul, [&](Value x, Value inverse) {
    if (auto reciprocal = inverse.getDefiningOp<ReciprocalOp>())
      found = matchRoot(reciprocal.getInput(), x);
    else if (auto div = inverse.getDefiningOp<DivOp>(); div && isNear(splatOf(div.getLhs()), 1))
      found = matchRoot(div.getRhs(), x);
    return found.has_value();
  });
  return found;
}

/// y if x = y - mean y over the same dimensions.
Value centeredFrom(Value x, int64_t axis) {
  auto sub = x.getDefiningOp<SubOp>();
  return sub && meanOverTail(sub.getRhs(), sub.getLhs()) == axis ? sub.getLhs() : Value();
}

bool isRow(Value value, llvm::ArrayRef<int64_t> row) {
  auto dims = dimsOf(value);
  while (dims.size() > row.size() && dims.front() == 1)
    dims = dims.drop_front();
  return dims == row;
}

/// `value` in the shape of the normalized dimensions, if it broadcasts over the others only.
Value asRow(Value value, llvm::ArrayRef<int64_t> row, PatternRewriter &rewriter) {
  if (!isRow(value, row))
    return {};
  return dimsOf(value) == row ? value : rewriter.create<ReshapeOp>(value.getLoc(), value, row).getResult();
}

/// LayerNorm where what is normalized was centred, else RMSNorm.
Value makeNorm(const Normalized &norm, Value scale, Location location, PatternRewriter &rewriter) {
  const llvm::APFloat epsilon(norm.epsilon);
  if (Value source = centeredFrom(norm.x, norm.axis))
    return rewriter.create<LayerNormOp>(location, source, scale, Value(), norm.axis, epsilon).getResult();
  return rewriter.create<RmsNormOp>(location, norm.x, scale, norm.axis, epsilon).getResult();
}

/// normalized * scale
struct RaiseNorm : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value value, Value scale) {
      auto norm = matchNormalized(value);
      if (!norm || !sameType(norm->x, op.getResult()))
        return false;
      Value row = asRow(scale, dimsOf(norm->x).drop_front(norm->axis), rewriter);
      if (!row)
        return false;
      rewriter.replaceOp(op, makeNorm(*norm, row, op.getLoc(), rewriter));
      return true;
    }));
  }
};

/// Normalized alone, as models without trained scales have it: the scale is 1.
template <typename Op> struct RaiseBareNorm : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto norm = matchNormalized(op.getResult());
    if (!norm || !sameType(norm->x, op.getResult()))
      return failure();
    const auto row = dimsOf(norm->x).drop_front(norm->axis);
    for (Operation *user : op->getUsers()) // with a scale they are RaiseNorm's
      if (isa<MulOp>(user) && llvm::any_of(user->getOperands(), [&](Value other) { return isRow(other, row); }))
        return failure();
    const Type element = cast<RankedTensorType>(norm->x.getType()).getElementType();
    auto one = DenseElementsAttr::get(RankedTensorType::get(row, element), rewriter.getFloatAttr(element, 1));
    Value scale = rewriter.create<ConstantOp>(op.getLoc(), one);
    rewriter.replaceOp(op, makeNorm(*norm, scale, op.getLoc(), rewriter));
    return success();
  }
};

/// layer_norm + bias
struct FoldBiasIntoLayerNorm : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value value, Value bias) {
      auto norm = value.getDefiningOp<LayerNormOp>();
      bool plain = norm && !norm.getBias() && value == norm.getResult() && value.hasOneUse() &&
                   norm.getMean().use_empty() && norm.getInvStd().use_empty() && sameType(value, op.getResult());
      Value row = plain ? asRow(bias, dimsOf(norm.getScale()), rewriter) : Value();
      if (!row)
        return false;
      auto raised = rewriter.create<LayerNormOp>(norm.getLoc(), norm.getInput(), norm.getScale(), row, norm.getAxis(),
                                                 norm.getEpsilon());
      rewriter.replaceOp(op, raised.getResult());
      return true;
    }));
  }
};

/// Is `value` a variance: the mean or sum of the squares of what is centred over the same dimensions, times a number?
bool isVariance(Value value) {
  Factors factors = factorsOf(value);
  if (factors.values.size() != 1 || !(factors.scalar > 0))
    return false;
  Operation *sum = factors.values[0].getDefiningOp();
  if (!isa_and_nonnull<ReduceMeanOp, ReduceSumOp>(sum))
    return false;
  auto axesOf = [](Operation *op) {
    auto mean = dyn_cast<ReduceMeanOp>(op);
    return mean ? mean.getAxes() : cast<ReduceSumOp>(op).getAxes();
  };
  Factors square = factorsOf(sum->getOperand(0));
  auto centred = square.values.empty() ? SubOp() : square.values[0].getDefiningOp<SubOp>();
  auto mean = centred ? centred.getRhs().getDefiningOp<ReduceMeanOp>() : ReduceMeanOp();
  return mean && isSquareOf(sum->getOperand(0), centred) && mean.getInput() == centred.getLhs() &&
         mean.getAxes() == axesOf(sum);
}

/// sqrt(variance): torch's std, whose derivative is 0 where all elements are the same, and not 0 times the root's
/// infinity. A norm has an epsilon in between.
struct GuardDeviation : OpRewritePattern<SqrtOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SqrtOp op, PatternRewriter &rewriter) const override {
    Value variance = op.getInput();
    if (!isVariance(variance))
      return failure();
    TensorBuilder on(rewriter, op.getLoc());
    Value isZero = on.make<EqualOp>(variance, on.scalar(0, variance));
    Value root = on.make<SqrtOp>(on.select(isZero, on.scalar(1, variance), variance));
    rewriter.replaceOp(op, on.select(isZero, on.scalar(0, root), root));
    return success();
  }
};

} // namespace

void zc::importer::addNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseNorm, RaiseBareNorm<DivOp>, RaiseBareNorm<MulOp>, FoldBiasIntoLayerNorm, GuardDeviation>(
      patterns.getContext());
}
