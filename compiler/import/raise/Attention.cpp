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
  Value condition;                   ///< bool
  bool drop = false;                 ///< where it is true, not where it is false
  llvm::SmallVector<Value, 2> added; ///< without a condition: float, one after the other
};

/// Scores where a condition holds, or does not, -inf elsewhere. Rows that are masked as a whole would be NaN here and
/// are zeros in the attention op; of another low number they would be averages, so that there may be none.
std::optional<Masked> matchSelected(SelectOp select) {
  Value condition = select.getCondition();
  for (bool drop : {false, true}) {
    Value kept = drop ? select.getRhs() : select.getLhs(), other = drop ? select.getLhs() : select.getRhs();
    auto scores = matchScores(kept);
    auto low = splatOf(other);
    if (!scores || !sameType(kept, select.getResult()) || !low)
      continue;
    auto dims = dimsOf(kept).take_back(2);
    if (*low == -INFINITY || (!drop && *low < -1e30 && everyRowKeepsOne(condition, dims[0], dims[1])))
      return Masked{*scores, condition, drop, {}};
  }
  return std::nullopt;
}

/// Does `mask` hide nothing of `scores` that their condition does not hide?
bool hidesNoMore(Value mask, const Masked &masked, Value scores) {
  auto dims = dimsOf(scores).take_back(2);
  return hidesNothing(mask) ||
         (!masked.drop && isCausalMask(mask, dims[0], dims[1]) && isCausalMask(masked.condition, dims[0], dims[1]));
}

/// `most`: additions that are looked through.
std::optional<Masked> matchMasked(Value value, int most = 2) {
  if (auto scores = matchScores(value))
    return Masked{*scores, {}, false, {}};
  if (auto select = value.getDefiningOp<SelectOp>())
    return matchSelected(select);
  std::optional<Masked> found;
  if (auto add = value.getDefiningOp<AddOp>(); add && most > 0)
    eitherOrder(add, [&](Value a, Value mask) {
      if (!sameType(a, value) || !mayBeAdded(mask, a))
        return false;
      // T5 adds a table of positions, then what hides padding. A condition is not added to.
      found = matchMasked(a, most - 1);
      if (found && !found->condition)
        found->added.push_back(mask);
      else if (found && !hidesNoMore(mask, *found, a))
        found.reset();
      return found.has_value();
    });
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

    auto mask = maskOf(*masked, dimsOf(softmax.getResult()), rewriter);
    if (!mask)
      return failure();
    auto attention = rewriter.create<AttentionOp>(
        op.getLoc(), query, key, value, mask->value, rewriter.getF64FloatAttr(scale),
        mask->causal ? rewriter.getUnitAttr() : mlir::UnitAttr(), dropout ? dropout.getRatioAttr() : FloatAttr(),
        dropout ? dropout.getIdAttr() : IntegerAttr(), ViewsAttr());
    rewriter.replaceOp(op, attention.getResult());
    return success();
  }

  struct Mask {
    Value value; ///< of rank 4, or null
    bool causal = false;
  };
  /// Of scores of shape `full`; nothing where one of them has another shape.
  static std::optional<Mask> maskOf(Masked &masked, llvm::ArrayRef<int64_t> full, PatternRewriter &rewriter) {
    llvm::SmallVector<Value, 2> masks = masked.condition ? llvm::SmallVector<Value, 2>{masked.condition} : masked.added;
    if (!masked.drop)
      llvm::erase_if(masks, hidesNothing);
    if (!llvm::all_of(masks, [&](Value mask) { return broadcastsTo(mask, full); }))
      return std::nullopt;
    if (masks.empty())
      return Mask{};
    // Beside another mask it stays: rows that both hide as a whole average what they would.
    if (masks.size() == 1 && !masked.drop && isCausalMask(masks[0], full[2], full[3]))
      return Mask{{}, true};
    Location loc = masked.scores.product.getLoc();
    Value mask = masks[0];
    for (Value other : llvm::drop_begin(masks))
      mask = rewriter.create<AddOp>(loc, mask, other);
    llvm::SmallVector<int64_t, 4> shape(dimsOf(mask));
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    mask = rewriter.create<ReshapeOp>(loc, mask, shape);
    if (masked.drop)
      mask = rewriter.create<NotOp>(loc, mask);
    return Mask{mask};
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

/// attention(q * c, k) is attention(q, k) with scale * c, also where a transpose or a reshape stands behind the
/// multiplication.
struct AbsorbScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    for (OpOperand *operand : {&op.getQueryMutable(), &op.getKeyMutable()}) {
      Operation *moved = operand->get().getDefiningOp();
      if (!isa_and_nonnull<TransposeOp, ReshapeOp>(moved))
        moved = nullptr;
      Value scaled = moved ? moved->getOperand(0) : operand->get();
      double scale = 1;
      Value plain = unscaled(scaled, scale);
      if (plain == scaled)
        continue;
      if (auto transpose = dyn_cast_or_null<TransposeOp>(moved))
        plain = rewriter.create<TransposeOp>(moved->getLoc(), plain, transpose.getPermutation());
      else if (moved)
        plain = rewriter.create<ReshapeOp>(moved->getLoc(), plain, dimsOf(operand->get()));
      rewriter.modifyOpInPlace(op, [&] {
        operand->set(plain);
        op.setScale(llvm::APFloat(op.getScale().convertToDouble() * scale));
      });
      return success();
    }
    return failure();
  }
};

/// A mask that is known to be causal becomes the flag, one that hides nothing goes; one of -inf and 0 becomes a bool.
struct SimplifyMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask)
      return failure();
    const bool isCausal = isCausalMask(mask, dimsOf(op.getQuery())[2], dimsOf(op.getKey())[2]);
    if (hidesNothing(mask) || (isCausal && !op.getCausal())) {
      rewriter.replaceOpWithNewOp<AttentionOp>(op, op.getQuery(), op.getKey(), op.getValue(), Value(),
                                               op.getScaleAttr(),
                                               isCausal ? rewriter.getUnitAttr() : op.getCausalAttr(),
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

/// Are these probabilities of an attention: a softmax of a product's rows, which a product takes?
bool isAttention(SoftmaxOp op) {
  auto reaches = [](Value value, auto &&self) -> bool {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return isa<MatmulOp>(user) ? user->getOperand(0) == value
                                 : isa<DropoutOp, ReshapeOp>(user) && self(user->getResult(0), self);
    });
  };
  Value scores = op.getInput();
  for (int depth = 0; depth < 8; ++depth) {
    Operation *maker = scores.getDefiningOp();
    if (isa_and_nonnull<MatmulOp>(maker))
      return tensorOf(scores).getRank() > 2 && reaches(op.getResult(), reaches);
    if (!isa_and_nonnull<AddOp, MulOp, DivOp, SelectOp, ReshapeOp>(maker))
      return false;
    auto larger = llvm::find_if(maker->getOperands(), [&](Value operand) {
      return tensorOf(operand).getNumElements() == tensorOf(scores).getNumElements() && operand.getDefiningOp() &&
             isa<FloatType>(tensorOf(operand).getElementType());
    });
    if (larger == maker->operand_end())
      return false;
    scores = *larger;
  }
  return false;
}

} // namespace

void zc::importer::remarkOnScores(ProgramOp program) {
  constexpr int64_t kWorthSaying = int64_t(8) << 20; // elements
  SoftmaxOp first;
  int64_t elements = 0, count = 0;
  for (auto softmax : program.getBlock().getOps<SoftmaxOp>())
    if (isAttention(softmax)) {
      first = first ? first : softmax;
      elements += tensorOf(softmax.getResult()).getNumElements();
      ++count;
    }
  if (elements < kWorthSaying)
    return;
  InFlightDiagnostic remark = first.emitRemark("attention is computed with its scores in memory, ")
                              << tensorOf(first.getResult()) << (count > 1 ? " here" : "");
  if (count > 1)
    remark << ", in " << count << " places";
  remark.attachNote() << "its form is none that is known, or something else uses its probabilities";
  remark.attachNote() << "help: scaled_dot_product_attention, or need_weights=False, exports a form that is";
}

void zc::importer::addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, AbsorbScale, SimplifyMask, GroupQueries>(patterns.getContext());
}
