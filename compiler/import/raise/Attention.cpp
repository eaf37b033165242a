//===- Attention.cpp - scaled dot-product attention -------------------------------===//
#include "compiler/import/raise/Mask.h"
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// The one value under constant factors; the factors go to `scale`.
Value unscaled(Value value, double &scale) {
  Factors factors = factorsOf(value);
  if (factors.values.size() != 1 || !sameType(factors.values[0], value))
    return value;
  scale *= factors.scalar;
  return factors.values[0];
}

/// scale * q k^T
struct Scores {
  MatmulOp product;
  double scale = 1;
};
std::optional<Scores> matchScores(Value value) {
  Scores scores;
  scores.product = unscaled(value, scores.scale).getDefiningOp<MatmulOp>();
  if (!scores.product || scores.product.getTransLhs() || !scores.product.getTransRhs() || scores.product.getBias())
    return std::nullopt;
  return scores;
}

/// Of a table that may be trained the op has the gradient where it has an element for each score of a head.
bool mayBeAdded(Value mask, Value scores) {
  return AttentionGradOp::hasMaskGradient(tensorOf(mask), dimsOf(scores).take_back(2)) ||
         !dependsOnFloatParameter(mask);
}

/// What stands between the scores and the softmax.
struct Masked {
  Scores scores;
  llvm::SmallVector<Value, 2> masks; ///< float, added one after the other, or one of bool
  bool drop = false;                 ///< bool: true means masked out
};
/// `most`: additions that are looked through.
std::optional<Masked> matchMasked(Value value, int most = 2) {
  if (auto scores = matchScores(value))
    return Masked{*scores, {}};
  std::optional<Masked> found;
  if (auto add = value.getDefiningOp<AddOp>(); add && most > 0) {
    eitherOrder(add, [&](Value a, Value mask) {
      if (!sameType(a, value) || !mayBeAdded(mask, a))
        return false;
      // T5 adds a table of positions, then what hides padding. A condition is not added to.
      found = a.getDefiningOp<SelectOp>() ? std::nullopt : matchMasked(a, most - 1);
      if (found)
        found->masks.push_back(mask);
      return found.has_value();
    });
  } else if (auto select = value.getDefiningOp<SelectOp>()) {
    // Fully masked rows would be NaN here and are zeros in the attention op.
    for (bool drop : {false, true}) {
      Value kept = drop ? select.getRhs() : select.getLhs(), other = drop ? select.getLhs() : select.getRhs();
      auto scores = matchScores(kept);
      if (scores && sameType(kept, value) && splatOf(other) == -INFINITY)
        return Masked{*scores, {select.getCondition()}, drop};
    }
  }
  return found;
}

/// softmax(scores) v, or dropout(softmax(scores)) v
struct RaiseAttention : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto dropout = op.getLhs().getDefiningOp<DropoutOp>();
    if (dropout &&
        (!dropout->hasOneUse() || !dropout.getResult().hasOneUse() || dropout.getRatio().convertToDouble() == 0))
      return failure();
    auto softmax = (dropout ? dropout.getInput() : op.getLhs()).getDefiningOp<SoftmaxOp>();
    if (!softmax || op.getTransLhs() || op.getTransRhs() || op.getBias() || !softmax->hasOneUse() ||
        tensorOf(op.getResult()).getRank() != 4 || softmax.getAxis() != 3)
      return failure();
    auto masked = matchMasked(softmax.getInput());
    if (!masked)
      return failure();
    double scale = masked->scores.scale;
    Value query = unscaled(masked->scores.product.getLhs(), scale);
    Value key = unscaled(masked->scores.product.getRhs(), scale), value = op.getRhs();
    if (tensorOf(query).getRank() != 4 || tensorOf(key).getRank() != 4 || tensorOf(value).getRank() != 4 ||
        dimsOf(query).take_front(2) != dimsOf(key).take_front(2) ||
        dimsOf(query).take_front(2) != dimsOf(value).take_front(2))
      return failure();

    llvm::SmallVector<int64_t, 4> full(dimsOf(softmax.getResult()));
    llvm::SmallVectorImpl<Value> &masks = masked->masks;
    if (!llvm::all_of(masks, [&](Value mask) { return broadcastsTo(mask, full); }))
      return failure();
    // Beside another mask it stays: rows that both hide as a whole average what they would.
    bool causal = masks.size() == 1 && !masked->drop && isCausalMask(masks[0], full[2], full[3]);
    if (causal)
      masks.clear();
    Value mask = masks.empty() ? Value() : masks[0];
    for (Value other : llvm::drop_begin(masks, masks.empty() ? 0 : 1))
      mask = rewriter.create<AddOp>(op.getLoc(), mask, other);
    if (mask) {
      llvm::SmallVector<int64_t, 4> shape(dimsOf(mask));
      shape.insert(shape.begin(), 4 - shape.size(), 1);
      mask = rewriter.create<ReshapeOp>(op.getLoc(), mask, shape);
      if (masked->drop)
        mask = rewriter.create<NotOp>(op.getLoc(), mask);
    }
    auto attention = rewriter.create<AttentionOp>(op.getLoc(), query, key, value, mask, rewriter.getF64FloatAttr(scale),
                                                  causal ? rewriter.getUnitAttr() : mlir::UnitAttr(),
                                                  dropout ? dropout.getRatioAttr() : FloatAttr(),
                                                  dropout ? dropout.getIdAttr() : IntegerAttr(), ViewsAttr());
    rewriter.replaceOp(op, attention.getResult());
    return success();
  }

  static bool broadcastsTo(Value mask, llvm::ArrayRef<int64_t> full) {
    auto dims = dimsOf(mask);
    if (dims.size() > 4)
      return false;
    full = full.take_back(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] != 1 && dims[d] != full[d])
        return false;
    return true;
  }
};

/// attention(q * c, k) is attention(q, k) with scale * c, also where a transpose stands behind the multiplication.
struct AbsorbScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    for (OpOperand *operand : {&op.getQueryMutable(), &op.getKeyMutable()}) {
      auto transpose = operand->get().getDefiningOp<TransposeOp>();
      Value scaled = transpose ? transpose.getInput() : operand->get();
      double scale = 1;
      Value plain = unscaled(scaled, scale);
      if (plain == scaled)
        continue;
      if (transpose)
        plain = rewriter.create<TransposeOp>(transpose.getLoc(), plain, transpose.getPermutation());
      rewriter.modifyOpInPlace(op, [&] {
        operand->set(plain);
        op.setScale(llvm::APFloat(op.getScale().convertToDouble() * scale));
      });
      return success();
    }
    return failure();
  }
};

/// A mask that is known to be causal becomes the flag; one of -inf and 0 becomes a bool.
struct SimplifyMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask)
      return failure();
    if (!op.getCausal() && isCausalMask(mask, dimsOf(op.getQuery())[2], dimsOf(op.getKey())[2])) {
      rewriter.replaceOpWithNewOp<AttentionOp>(op, op.getQuery(), op.getKey(), op.getValue(), Value(),
                                               op.getScaleAttr(), /*causal=*/rewriter.getUnitAttr(),
                                               op.getDropoutAttr(), op.getDropoutIdAttr(), ViewsAttr());
      return success();
    }
    auto select = mask.getDefiningOp<SelectOp>();
    if (!select || splatOf(select.getLhs()) != 0.0 || splatOf(select.getRhs()) != -INFINITY ||
        dimsOf(select.getCondition()) != dimsOf(mask))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(select.getCondition()); });
    return success();
  }
};

/// [B, Hk, L, D] -> [B, Hk, 1, L, D] -> [B, Hk, G, L, D] -> [B, Hk G, L, D]: the tensor before it, or null.
Value repeatedHeads(Value value) {
  auto join = value.getDefiningOp<ReshapeOp>();
  auto expand = join ? join.getInput().getDefiningOp<ExpandOp>() : ExpandOp();
  if (!expand || tensorOf(expand.getInput()).getRank() != 5 || tensorOf(expand.getResult()).getRank() != 5)
    return {};
  auto from = dimsOf(expand.getInput()), to = dimsOf(expand.getResult()), joined = dimsOf(value);
  bool onlyGroups = from[0] == to[0] && from[1] == to[1] && from[2] == 1 && from[3] == to[3] && from[4] == to[4];
  bool joinsGroups = joined[0] == to[0] && joined[1] == to[1] * to[2] && joined[2] == to[3] && joined[3] == to[4];
  return onlyGroups && joinsGroups ? expand.getInput() : Value();
}

struct GroupQueries : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value key = repeatedHeads(op.getKey()), value = repeatedHeads(op.getValue());
    if (!key || !value || dimsOf(key)[1] != dimsOf(value)[1])
      return failure();
    auto flat = [&](Value x) {
      auto d = dimsOf(x);
      return rewriter.create<ReshapeOp>(x.getLoc(), x, llvm::ArrayRef<int64_t>{d[0], d[1], d[3], d[4]}).getResult();
    };
    Value flatKey = flat(key), flatValue = flat(value);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(flatKey);
      op.getValueMutable().assign(flatValue);
    });
    return success();
  }
};

} // namespace

void zc::importer::addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, AbsorbScale, SimplifyMask, GroupQueries>(patterns.getContext());
}
