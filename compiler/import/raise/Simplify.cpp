//===- Simplify.cpp - what stands in the way of the recognisers -----------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// Which dimensions of `to` each dimension of `from` is split into, from the right, so that ones belong to what leads;
/// nothing where a dimension of `from` is no product of neighbours.
std::optional<llvm::SmallVector<llvm::SmallVector<int64_t, 2>>> splitDims(llvm::ArrayRef<int64_t> from,
                                                                          llvm::ArrayRef<int64_t> to) {
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>> parts(from.size());
  for (size_t d = from.size(); d-- > 0;) {
    int64_t left = from[d];
    do {
      if (to.empty() || to.back() == 0 || left % to.back() != 0)
        return std::nullopt;
      parts[d].insert(parts[d].begin(), to.back());
      left /= to.back();
      to = to.drop_back();
    } while (left != 1);
  }
  if (parts.empty() || llvm::any_of(to, [](int64_t dim) { return dim != 1; }))
    return std::nullopt;
  parts[0].insert(parts[0].begin(), to.begin(), to.end());
  return parts;
}

bool isOneNumber(Value value) { return splatOf(value) && tensorOf(value).getNumElements() == 1; }

/// Do only products of matrices use `value`, or what a number makes of it?
bool isForProducts(Value value, bool scaled = false) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<MatmulOp>(user))
      return true;
    return !scaled && isa<MulOp>(user) && llvm::any_of(user->getOperands(), isOneNumber) &&
           isForProducts(user->getResult(0), /*scaled=*/true);
  });
}

/// A reshape that splits dimensions of transpose(reshape(x)) splits those of x, so that the transpose meets the matmul
/// and heads are dimensions of their own: torch.export writes the keys of an attention with them joined,
/// [B, H, L, D] -> [B H, L, D] -> [B H, D, L] -> [B, H, D, L].
struct SplitBeforeTranspose : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    auto joined = transpose ? transpose.getInput().getDefiningOp<ReshapeOp>() : ReshapeOp();
    bool isWanted = joined && transpose->hasOneUse() && isForProducts(op.getResult());
    auto parts = isWanted ? splitDims(dimsOf(transpose), dimsOf(op)) : std::nullopt;
    if (!parts)
      return failure();
    // Of each dimension of the transpose's input, its parts; where they stand in the result.
    llvm::SmallVector<int64_t> shape, permutation, starts(parts->size());
    llvm::SmallVector<size_t> placeOf(parts->size());
    for (auto [place, dim] : llvm::enumerate(transpose.getPermutation()))
      placeOf[dim] = place;
    for (auto [dim, place] : llvm::enumerate(placeOf)) {
      starts[place] = shape.size();
      llvm::append_range(shape, (*parts)[place]);
    }
    for (auto [place, split] : llvm::enumerate(*parts))
      for (size_t part = 0; part < split.size(); ++part)
        permutation.push_back(starts[place] + part);
    Value split = rewriter.create<ReshapeOp>(joined.getLoc(), joined.getInput(), shape);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, split, permutation);
    return success();
  }
};

/// join(split(x) + m) = x + m of each sample, where x's first dimension is split in two for that: Swin adds a mask for
/// each window.
struct AddBeforeSplit : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto add = op.getInput().getDefiningOp<AddOp>();
    if (!add || !add->hasOneUse())
      return failure();
    return success(eitherOrder(add, [&](Value x, Value mask) {
      auto split = x.getDefiningOp<ReshapeOp>();
      if (!split || !sameType(split.getInput(), op.getResult()) || !sameType(x, add.getResult()))
        return false;
      auto whole = dimsOf(op.getResult()), parts = dimsOf(x), dims = dimsOf(mask);
      if (whole.size() < 3 || parts.size() != whole.size() + 1 || dims.size() != parts.size() ||
          parts.drop_front(2) != whole.drop_front(1))
        return false;
      llvm::SmallVector<int64_t> shape(dims);
      llvm::copy(parts.take_front(2), shape.begin());
      Value each = rewriter.create<ExpandOp>(add.getLoc(), mask, shape);
      shape.erase(shape.begin());
      shape.front() = whole.front();
      each = rewriter.create<ReshapeOp>(add.getLoc(), each, shape);
      rewriter.replaceOpWithNewOp<AddOp>(op, split.getInput(), each);
      return true;
    }));
  }
};

/// transpose(x) * c = transpose(x * c), so that the transpose meets the matmul.
struct SinkTransposeBelowScale : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    if (!isForProducts(op.getResult(), /*scaled=*/true))
      return failure();
    bool done = eitherOrder(op, [&](Value x, Value c) {
      auto transpose = x.getDefiningOp<TransposeOp>();
      if (!transpose || !isOneNumber(c) || !sameType(x, op.getResult()))
        return false;
      auto scaled = rewriter.create<MulOp>(op.getLoc(), transpose.getInput(), c);
      rewriter.replaceOpWithNewOp<TransposeOp>(op, scaled, transpose.getPermutation());
      return true;
    });
    return success(done);
  }
};

/// Of rank 3 or more, as many on both sides: rows of a batch, not of a weight.
bool isBatched(MatmulOp op) {
  int64_t rank = tensorOf(op.getLhs()).getRank();
  return rank > 2 && tensorOf(op.getRhs()).getRank() == rank && !op.getBias();
}

bool isProbabilities(Value value) {
  auto dropout = value.getDefiningOp<DropoutOp>();
  return (dropout ? dropout.getInput() : value).getDefiningOp<SoftmaxOp>() != nullptr;
}

/// (k q^T)^T = q k^T
struct FoldTransposeOfProduct : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto product = op.getInput().getDefiningOp<MatmulOp>();
    llvm::SmallVector<int64_t> permutation(op.getPermutation());
    if (!product || !product->hasOneUse() || !isBatched(product) || isProbabilities(product.getLhs()) ||
        llvm::is_sorted(permutation))
      return failure();
    std::swap(permutation[permutation.size() - 2], permutation.back());
    if (!llvm::is_sorted(permutation))
      return failure();
    rewriter.replaceOpWithNewOp<MatmulOp>(op, product.getRhs(), product.getLhs(), Value(), !product.getTransRhs(),
                                          !product.getTransLhs());
    return success();
  }
};

/// (q k^T) / t = (q k^T) * (1 / t) for a temperature that is trained, of all scores or of each row: a factor of
/// queries.
struct InvertTemperature : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto product = op.getLhs().getDefiningOp<MatmulOp>();
    auto dims = dimsOf(op.getRhs());
    if (!product || !isBatched(product) || !sameType(op.getLhs(), op.getResult()) || splatOf(op.getRhs()) ||
        (!dims.empty() && dims.back() != 1))
      return failure();
    Value inverse = rewriter.create<ReciprocalOp>(op.getLoc(), op.getRhs());
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), inverse);
    return success();
  }
};

/// v^T p^T = (p v)^T of probabilities p, as models of pictures write it: channels stand before positions there.
struct TurnProductOfProbabilities : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    if (!isProbabilities(op.getRhs()) || isProbabilities(op.getLhs()) || !isBatched(op) || !op.getTransRhs())
      return failure();
    auto turned = rewriter.create<MatmulOp>(op.getLoc(), op.getRhs(), op.getLhs(), Value(), /*trans_lhs=*/false,
                                            !op.getTransLhs());
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, tensorOf(op.getResult()).getRank()));
    std::swap(permutation[permutation.size() - 2], permutation.back());
    rewriter.replaceOpWithNewOp<TransposeOp>(op, turned, permutation);
    return success();
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
  patterns.add<SplitBeforeTranspose, AddBeforeSplit, SinkTransposeBelowScale, FoldTransposeOfProduct,
               TurnProductOfProbabilities, InvertTemperature, DropTrue, SimplifyEqualOfSelect, DropNotInSelect>(
      patterns.getContext());
}
