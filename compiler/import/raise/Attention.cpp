//===- Attention.cpp - scaled dot-product attention -------------------------------===//
#include "compiler/import/raise/Scores.h"
#include "dialects/graph/Gradient.h"
#include "dialects/graph/Infer.h"

#include <numeric>

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// [B, G, H, S, D] -> [B G, H, S, D]: `value` broadcasts to `full`, all but whose last three dimensions become one. Of
/// a value that is the same along all of these, one stays.
Value joinBatches(Value value, Dims full, PatternRewriter &rewriter) {
  const size_t rank = full.size(), leading = rank - 3;
  Dims dims = dimsOf(value);
  if (rank == 4)
    return value;
  llvm::SmallVector<int64_t> shape(dims);
  if (llvm::any_of(dims.take_front(leading), [](int64_t d) { return d != 1; })) {
    llvm::copy(full.take_front(leading), shape.begin());
    if (Dims(shape) != dims)
      value = rewriter.create<ExpandOp>(value.getLoc(), value, shape);
  }
  int64_t batch = std::accumulate(shape.begin(), shape.begin() + leading, int64_t(1), std::multiplies<>());
  shape.erase(shape.begin(), shape.begin() + leading);
  shape.insert(shape.begin(), batch);
  return rewriter.create<ReshapeOp>(value.getLoc(), value, shape);
}

/// One operand of the scores' product as attention takes it, [B, H, S, D]: times `factors`, constants go to `scale`.
Value rowsOf(Value value, bool isTransposed, llvm::ArrayRef<Value> factors, double &scale, PatternRewriter &rewriter) {
  value = unscaled(value, scale);
  if (isTransposed) {
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, tensorOf(value).getRank()));
    std::swap(permutation.end()[-1], permutation.end()[-2]);
    value = rewriter.create<TransposeOp>(value.getLoc(), value, permutation);
  }
  for (Value factor : factors)
    value = rewriter.create<MulOp>(value.getLoc(), value, factor);
  return joinBatches(value, dimsOf(value), rewriter);
}

/// Queries that are the same for all samples (Perceiver's latents), for each.
Value ofEachSample(Value query, int64_t samples, PatternRewriter &rewriter) {
  llvm::SmallVector<int64_t> shape(dimsOf(query));
  if (shape[0] != 1 || samples == 1)
    return query;
  shape[0] = samples;
  return rewriter.create<ExpandOp>(query.getLoc(), query, shape);
}

Positions positionsOf(AttentionOp op) { return {op.getCausal(), static_cast<int64_t>(op.getWindow().value_or(0))}; }
void setPositions(AttentionOp op, Positions positions) {
  op.setCausal(positions.causal);
  op.setWindow(positions.window == 0 ? std::nullopt : std::optional<uint64_t>(positions.window));
}

/// softmax(scores) v, or dropout(softmax(scores)) v
struct RaiseAttention : OpRewritePattern<MatmulOp> {
  /// `turns`: operands that stand transposed are transposed again.
  RaiseAttention(MLIRContext *context, bool turns) : OpRewritePattern(context), turns(turns) {}

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto dropout = op.getLhs().getDefiningOp<DropoutOp>();
    if (dropout &&
        (!dropout->hasOneUse() || !dropout.getResult().hasOneUse() || dropout.getRatio().convertToDouble() == 0))
      return failure();
    auto softmax = (dropout ? dropout.getInput() : op.getLhs()).getDefiningOp<SoftmaxOp>();
    if (!softmax || op.getTransLhs() || op.getBias() || !softmax->hasOneUse())
      return failure();
    Dims full = dimsOf(softmax.getResult());
    if (full.size() < 4 || softmax.getAxis() + 1 != full.size())
      return failure();
    // Of a row that is averaged dropout would drop single values.
    auto masked = matchMasked(softmax.getInput(), /*averages=*/!dropout);
    if (!masked || !areHeads(masked->scores.product, op, full) || !masked->broadcastsTo(full))
      return failure();

    MatmulOp product = masked->scores.product;
    double scale = masked->scores.scale, one = 1;
    Value query = rowsOf(product.getLhs(), product.getTransLhs(), masked->scores.factors, scale, rewriter);
    query = ofEachSample(query, full[0], rewriter);
    Value key = rowsOf(product.getRhs(), !product.getTransRhs(), {}, scale, rewriter);
    Value value = rowsOf(op.getRhs(), op.getTransRhs(), {}, one, rewriter);
    const Positions positions = masked->takePositions(full);
    Value mask = masked->buildMask(full.size(), product.getLoc(), rewriter);
    mask = mask ? joinBatches(mask, full, rewriter) : mask;
    auto attention = rewriter.create<AttentionOp>(
        op.getLoc(), query, key, value, mask, rewriter.getF64FloatAttr(scale), mlir::UnitAttr(), IntegerAttr(),
        masked->scores.cap == 0 ? FloatAttr() : rewriter.getF64FloatAttr(masked->scores.cap),
        dropout ? dropout.getRatioAttr() : FloatAttr(), dropout ? dropout.getIdAttr() : IntegerAttr(), IntegerAttr(),
        IntegerAttr(), ViewsAttr());
    setPositions(attention, positions);
    Value result = masked->mayAverageRows ? withAverages(attention, rewriter) : attention.getResult();
    if (full.size() > 4)
      result = rewriter.create<ReshapeOp>(op.getLoc(), result, dimsOf(op.getResult()));
    rewriter.replaceOp(op, result);
    return success();
  }

  /// Zeros of rows that are masked as a whole become the mean of all values, as they are where what is masked has equal
  /// scores.
  static Value withAverages(AttentionOp op, PatternRewriter &rewriter) {
    TensorBuilder on(rewriter, op.getLoc());
    auto rows = llvm::to_vector(dimsOf(op.getLse()));
    rows.push_back(1);
    Value hidden = on.make<EqualOp>(on.reshape(op.getLse(), rows), on.scalar(-INFINITY, op.getLse()));
    Value mean = on.make<ReduceMeanOp>(op.getValue(), llvm::ArrayRef<int64_t>{2}, /*keepdims=*/true);
    return on.select(hidden, mean, op.getResult());
  }

  /// Are the operands of one batch, with a head for each of the scores', or keys and values with one for all? Queries
  /// may be the same for all samples.
  bool areHeads(MatmulOp scores, MatmulOp op, Dims full) const {
    Dims query = dimsOf(scores.getLhs()), key = dimsOf(scores.getRhs()), value = dimsOf(op.getRhs());
    const size_t rank = full.size();
    return (turns || (!scores.getTransLhs() && scores.getTransRhs() && !op.getTransRhs())) && query.size() == rank &&
           key.size() == rank && value.size() == rank &&
           (query.drop_back(2) == full.drop_back(2) || (rank == 4 && query[0] == 1 && query[1] == full[1])) &&
           key.drop_back(2) == value.drop_back(2) && key.drop_back(3) == full.drop_back(3) &&
           (key[rank - 3] == full[rank - 3] || key[rank - 3] == 1);
  }

  bool turns;
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

/// A mask of positions becomes the flags that say so, one that hides nothing goes; one of -inf and 0 becomes a bool.
/// Of one that is the same for all samples, one sample's stays.
struct SimplifyMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask)
      return failure();
    const int64_t queries = dimsOf(op.getQuery())[2], keys = dimsOf(op.getKey())[2];
    auto band = bandOf(mask, queries, keys);
    auto positions = band ? withBand(positionsOf(op), *band, queries, keys) : std::nullopt;
    if (positions || hidesNothing(mask)) {
      rewriter.modifyOpInPlace(op, [&] {
        op.getMaskMutable().clear();
        setPositions(op, positions.value_or(positionsOf(op)));
      });
      return success();
    }
    if (succeeded(splitOff(op, rewriter)))
      return success();
    if (dimsOf(mask)[0] > 1 && isSameForSamples(mask)) {
      Value one = ofOneSample(mask, rewriter);
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(one); });
      return success();
    }
    auto reshape = mask.getDefiningOp<ReshapeOp>();
    auto select = (reshape ? reshape.getInput() : mask).getDefiningOp<SelectOp>();
    if (!select || splatOf(select.getLhs()) != 0.0 || splatOf(select.getRhs()) != -INFINITY ||
        dimsOf(select.getCondition()) != dimsOf(select))
      return failure();
    Value kept = select.getCondition();
    if (reshape)
      kept = rewriter.create<ReshapeOp>(reshape.getLoc(), kept, dimsOf(mask));
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(kept); });
    return success();
  }

  /// Of a bool mask of several parts (causal and padding) those of positions become flags; what broadcasts is not
  /// expanded.
  static LogicalResult splitOff(AttentionOp op, PatternRewriter &rewriter) {
    Value mask = op.getMask();
    auto hiding = hidingOf(mask);
    if (!hiding && !tensorOf(mask).getElementType().isInteger(1))
      return failure();
    auto parts = partsOf(hiding ? hiding->condition : Condition{mask, true});
    const size_t all = parts.size();
    Positions positions = positionsOf(op);
    if (!hiding || hiding->low == -INFINITY)
      positions = takePositions(parts, positions, dimsOf(op.getQuery())[2], dimsOf(op.getKey())[2]);
    if (parts.size() == all && elementsOf(parts) >= tensorOf(mask).getNumElements())
      return failure();
    TensorBuilder on(rewriter, mask.getLoc());
    Value rest = conjunctionOf(parts, mask.getLoc(), rewriter);
    if (rest && hiding)
      rest = on.select(rest, on.scalar(0, mask), on.scalar(hiding->low, mask));
    rest = rest ? withRank(rest, 4, rewriter) : rest;
    rewriter.modifyOpInPlace(op, [&] {
      setPositions(op, positions);
      rest ? op.getMaskMutable().assign(rest) : op.getMaskMutable().clear();
    });
    return success();
  }

  /// Of what all of them broadcast to.
  static int64_t elementsOf(llvm::ArrayRef<Condition> parts) {
    Shape shape;
    for (const Condition &part : parts)
      shape = *broadcastShapes(shape, dimsOf(part.value));
    return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
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
    if (!isBetweenScoresAndSoftmax(maker) && !isa_and_nonnull<ReshapeOp>(maker))
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

void zc::importer::addAttentionPatterns(RewritePatternSet &patterns, bool turns) {
  patterns.add<RaiseAttention>(patterns.getContext(), turns);
  patterns.add<AbsorbScale, SimplifyMask, GroupQueries>(patterns.getContext());
}
