//===- ComposeTransposes.cpp - transposes on both sides of a reshape -----------------------===//
#include "compiler/grad/ComposeTransposes.h"
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

namespace {

/// The factors of which the dimensions on both sides of a reshape are products: [2, 16, 64] and [2, 16, 8, 8] have
/// [2, 16, 8, 8]. Dimensions of one have none.
struct Factors {
  SmallVector<int64_t> sizes;
  SmallVector<SmallVector<size_t, 2>> before, after; ///< of each dimension, by their places in `sizes`

  /// Nothing where a dimension of one side ends within a factor of the other: [2, 3] and [3, 2].
  static std::optional<Factors> of(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    Factors factors;
    factors.before.resize(from.size());
    factors.after.resize(to.size());
    int64_t left = 1, right = 1; // of the dimensions before i and j, what no factor has yet
    for (size_t i = 0, j = 0;;) {
      while (left == 1 && i < from.size())
        left = from[i++];
      while (right == 1 && j < to.size())
        right = to[j++];
      const int64_t size = std::min(left, right);
      if (left == 1 && right == 1)
        return factors;
      if (size <= 1 || left % size != 0 || right % size != 0)
        return std::nullopt;
      factors.before[i - 1].push_back(factors.sizes.size());
      factors.after[j - 1].push_back(factors.sizes.size());
      factors.sizes.push_back(size);
      left /= size;
      right /= size;
    }
  }
};

/// The order of factors in memory, and in that of a result.
struct Rearrangement {
  SmallVector<size_t> from, to;

  /// Sizes of `from`, and the permutation to `to`, with factors that stay together as one dimension.
  std::pair<SmallVector<int64_t>, SmallVector<int64_t>> merged(ArrayRef<int64_t> sizes) const {
    SmallVector<size_t> placeInTo(sizes.size());
    for (auto [place, factor] : llvm::enumerate(to))
      placeInTo[factor] = place;
    SmallVector<int64_t> shape, firsts; // of each merged dimension, its first factor's place in `to`
    for (auto [place, factor] : llvm::enumerate(from)) {
      if (place > 0 && placeInTo[factor] == placeInTo[from[place - 1]] + 1) {
        shape.back() *= sizes[factor];
        continue;
      }
      shape.push_back(sizes[factor]);
      firsts.push_back(static_cast<int64_t>(placeInTo[factor]));
    }
    SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(shape.size())));
    llvm::sort(permutation, [&](int64_t a, int64_t b) { return firsts[a] < firsts[b]; });
    return {shape, permutation};
  }
};

struct ComposeThroughReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
    auto inner = reshape ? reshape.getInput().getDefiningOp<TransposeOp>() : TransposeOp();
    auto factors = inner ? Factors::of(shapeOf(inner.getResult()), shapeOf(reshape.getResult())) : std::nullopt;
    if (!factors)
      return failure();
    auto [shape, permutation] = compose(*factors, inner, op).merged(factors->sizes);
    const bool isView = shape.size() < 2, isAlone = inner->hasOneUse() && reshape->hasOneUse();
    if (!isView && !isAlone)
      return failure();
    Value value = inner.getInput();
    if (!isView) {
      value = rewriter.create<ReshapeOp>(op.getLoc(), value, shape);
      value = rewriter.create<TransposeOp>(op.getLoc(), value, permutation);
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, value, shapeOf(op.getResult()));
    return success();
  }

  static Rearrangement compose(const Factors &factors, TransposeOp inner, TransposeOp outer) {
    Rearrangement order;
    SmallVector<size_t> madeOf(inner.getPermutation().size()); // the inner's input dimension: its result's
    for (auto [i, from] : llvm::enumerate(inner.getPermutation()))
      madeOf[static_cast<size_t>(from)] = i;
    for (size_t dim : madeOf)
      llvm::append_range(order.from, factors.before[dim]);
    for (int64_t dim : outer.getPermutation())
      llvm::append_range(order.to, factors.after[static_cast<size_t>(dim)]);
    return order;
  }
};

} // namespace

void addComposeTransposes(RewritePatternSet &patterns) { patterns.add<ComposeThroughReshape>(patterns.getContext()); }

} // namespace zc
