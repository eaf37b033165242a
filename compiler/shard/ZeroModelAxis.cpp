//===- ZeroModelAxis.cpp - collectives of the model axis on whole runs of bytes ------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace zc {
#define GEN_PASS_DEF_ZEROMODELAXIS
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A tensor around dimension `dim`, for shapes of three dimensions that have the same elements.
struct Around {
  int64_t outer = 1, along = 1, inner = 1;

  Around(RankedTensorType type, int64_t dim) {
    for (int64_t i = 0; i < type.getRank(); ++i)
      (i < dim ? outer : i == dim ? along : inner) *= type.getDimSize(static_cast<unsigned>(i));
  }
};

Value reshape(PatternRewriter &rewriter, Location location, Value value, ArrayRef<int64_t> shape) {
  while (auto before = value.getDefiningOp<graph::ReshapeOp>())
    value = before.getInput();
  return typeOf(value).getShape() == shape ? value : rewriter.create<graph::ReshapeOp>(location, value, shape);
}

/// [a, b, c] -> [b, a, c].
Value swapFirst(PatternRewriter &rewriter, Location location, Value value) {
  return rewriter.create<graph::TransposeOp>(location, value, ArrayRef<int64_t>{1, 0, 2});
}

/// Parts lie one after another in memory where nothing of the tensor is before their dimension.
bool isContiguous(Value value, int64_t dim) { return Around(typeOf(value), dim).outer == 1; }

/// Parts are gathered one after another, and then brought between what is before their dimension.
struct GatherRuns : OpRewritePattern<graph::AllGatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::AllGatherOp op, PatternRewriter &rewriter) const override {
    const auto dim = static_cast<int64_t>(op.getDim()), ranks = static_cast<int64_t>(op.getRanks());
    if (isContiguous(op.getInput(), dim))
      return failure();
    const Around part(typeOf(op.getInput()), dim);
    const int64_t run = part.along * part.inner;
    Location location = op.getLoc();
    Value rows = reshape(rewriter, location, op.getInput(), {1, part.outer, run});
    Value all = rewriter.create<graph::AllGatherOp>(location, rows, 0, ranks);
    rewriter.replaceOp(op, reshape(rewriter, location, swapFirst(rewriter, location, all),
                                   cast<RankedTensorType>(op.getResult().getType()).getShape()));
    return success();
  }
};

/// The other way round, for ops that leave a rank its part.
template <typename Op> struct PartOfRuns : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    const auto dim = static_cast<int64_t>(op.getDim()), ranks = static_cast<int64_t>(op.getRanks());
    if (isContiguous(op.getInput(), dim))
      return failure();
    const Around whole(typeOf(op.getInput()), dim);
    const int64_t run = whole.along / ranks * whole.inner;
    Location location = op.getLoc();
    Operation *view = op.getInput().getDefiningOp();
    Value parts = swapFirst(rewriter, location, reshape(rewriter, location, op.getInput(), {whole.outer, ranks, run}));
    Value part = rewriter.create<Op>(location, parts, 0, ranks);
    rewriter.replaceOp(op,
                       reshape(rewriter, location, part, cast<RankedTensorType>(op.getResult().getType()).getShape()));
    if (view && isOpTriviallyDead(view)) // a shape that nobody reads now
      rewriter.eraseOp(view);
    return success();
  }
};

/// Communicators add; a maximum is exact in any order, so each rank finds it among all.
struct MaximumOfGathered : OpRewritePattern<graph::AllReduceOp> {
  MaximumOfGathered(MLIRContext *context, int64_t ranks) : OpRewritePattern(context), ranks(ranks) {}

  LogicalResult matchAndRewrite(graph::AllReduceOp op, PatternRewriter &rewriter) const override {
    if (!op.getMax())
      return failure();
    Location location = op.getLoc();
    Value flat = reshape(rewriter, location, op.getInput(), {1, typeOf(op.getInput()).getNumElements()});
    Value all = rewriter.create<graph::AllGatherOp>(location, flat, 0, ranks);
    Value largest = rewriter.create<graph::ReduceMaxOp>(location, all, ArrayRef<int64_t>{0}, /*keepdims=*/false);
    rewriter.replaceOp(op, reshape(rewriter, location, largest, typeOf(op.getInput()).getShape()));
    return success();
  }
  int64_t ranks;
};

/// One plan serves all ranks: what depends on the rank is an address, here in a table of what each would have.
struct OffsetFromTable : OpRewritePattern<graph::RankOffsetOp> {
  OffsetFromTable(MLIRContext *context, int64_t ranks) : OpRewritePattern(context), ranks(ranks) {}

  LogicalResult matchAndRewrite(graph::RankOffsetOp op, PatternRewriter &rewriter) const override {
    Type element = typeOf(op.getResult()).getElementType();
    SmallVector<Attribute> values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      values.push_back(rewriter.getIntegerAttr(element, rank * static_cast<int64_t>(op.getStride())));
    auto table = DenseElementsAttr::get(RankedTensorType::get({ranks}, element), values);
    Value all = rewriter.create<graph::ConstantOp>(op.getLoc(), table);
    Value own = rewriter.create<graph::AllSliceOp>(op.getLoc(), all, 0, ranks);
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), own, {}));
    return success();
  }
  int64_t ranks;
};

struct ZeroModelAxisPass : StagePass<impl::ZeroModelAxisBase<ZeroModelAxisPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<GatherRuns, PartOfRuns<graph::AllSliceOp>, PartOfRuns<graph::ReduceScatterOp>>(context);
    patterns.add<MaximumOfGathered, OffsetFromTable>(context, options.model);
    FrozenRewritePatternSet frozen(std::move(patterns));
    SmallVector<Operation *> collectives;
    getOperation().walk([&](Operation *op) {
      if (frozen.getOpSpecificNativePatterns().contains(op->getName()))
        collectives.push_back(op);
    });
    GreedyRewriteConfig config;
    config.strictMode = GreedyRewriteStrictness::ExistingAndNewOps;
    if (failed(applyOpPatternsAndFold(collectives, frozen, config)))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createZeroModelAxis(const ShardOptions &options) {
  return std::make_unique<ZeroModelAxisPass>(options);
}

} // namespace zc
