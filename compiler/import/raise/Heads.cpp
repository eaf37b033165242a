//===- Heads.cpp - heads that share a dimension with the batch ---------------------===//
//
// torch.bmm and baddbmm know one dimension of matrices: nn.MultiheadAttention that returns its weights computes in
// [B H, S, D], BLOOM its products, but not its softmax. The recogniser of attention wants [B, H, S, D]. The reshape
// that splits batch and heads goes up from the softmax through scores and products to where they were joined; the one
// that joins them goes down.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// [B, H, S, L] <-> [B H, S, L]
bool splits(llvm::ArrayRef<int64_t> joined, llvm::ArrayRef<int64_t> split) {
  return joined.size() == 3 && split.size() == 4 && joined[0] == split[0] * split[1] &&
         joined.take_back(2) == split.take_back(2);
}
bool isSplit(ReshapeOp op) { return op && splits(dimsOf(op.getInput()), dimsOf(op)); }
bool isJoin(ReshapeOp op) { return op && splits(dimsOf(op), dimsOf(op.getInput())); }

Value reshaped(PatternRewriter &rewriter, Value value, llvm::ArrayRef<int64_t> shape) {
  return rewriter.create<ReshapeOp>(value.getLoc(), value, shape);
}

/// `value`, which broadcasts to [B H, S, L], so that it broadcasts to [B, H, S, L].
Value splitHeads(PatternRewriter &rewriter, Value value, llvm::ArrayRef<int64_t> heads) {
  auto dims = dimsOf(value);
  if (dims.size() < 3)
    return value;
  llvm::SmallVector<int64_t, 4> shape(dims[0] == 1 ? llvm::ArrayRef<int64_t>{1, 1} : heads.take_front(2));
  shape.append(dims.begin() + 1, dims.end());
  return reshaped(rewriter, value, shape);
}

/// softmax(product of matrices, scaled and masked, maybe with the heads taken apart for that)
bool isOfProduct(Value value, int depth = 6) {
  Operation *op = value.getDefiningOp();
  if (auto matmul = dyn_cast_or_null<MatmulOp>(op))
    return tensorOf(matmul.getLhs()).getRank() > 2 && tensorOf(matmul.getRhs()).getRank() > 2;
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  return depth > 0 && (isBetweenScoresAndSoftmax(op) || isSplit(reshape) || isJoin(reshape)) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return isOfProduct(operand, depth - 1); });
}

/// split(f(x, mask)) = f(split(x), split(mask))
struct SplitBeforeScores : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    Operation *inner = op.getInput().getDefiningOp();
    auto isTowardsSoftmax = [](Operation *user) { return isa<SoftmaxOp>(user) || isBetweenScoresAndSoftmax(user); };
    if (!isSplit(op) || !inner || !inner->hasOneUse() || !llvm::all_of(op->getUsers(), isTowardsSoftmax))
      return failure();
    auto matmul = dyn_cast<MatmulOp>(inner);
    if (!isBetweenScoresAndSoftmax(inner) && (!matmul || matmul.getBias() || !isOfProduct(matmul.getResult()) ||
                                              dimsOf(matmul.getLhs())[0] != dimsOf(matmul.getRhs())[0]))
      return failure();
    llvm::SmallVector<Value, 3> operands;
    for (Value operand : inner->getOperands())
      operands.push_back(splitHeads(rewriter, operand, dimsOf(op)));
    OperationState state(inner->getLoc(), inner->getName(), operands, op.getType(), inner->getAttrs());
    rewriter.replaceOp(op, rewriter.create(state));
    return success();
  }
};

/// softmax(x) = join(softmax(split(x))), with the heads of the values where these are known, else one for each matrix.
struct SplitSoftmax : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto dims = dimsOf(op.getResult());
    if (dims.size() != 3 || op.getAxis() != 2 || !op->hasOneUse() || !isOfProduct(op.getInput()))
      return failure();
    Operation *user = *op->user_begin();
    auto dropout = dyn_cast<DropoutOp>(user);
    if (dropout && dropout->hasOneUse())
      user = *dropout->user_begin();
    auto matmul = dyn_cast<MatmulOp>(user);
    if (!matmul || matmul.getTransLhs() || tensorOf(matmul.getRhs()).getRank() != 3 ||
        dimsOf(matmul.getRhs())[0] != dims[0])
      return failure();
    llvm::SmallVector<int64_t, 4> heads{dims[0], 1, dims[1], dims[2]};
    auto scores = op.getInput().getDefiningOp<ReshapeOp>();
    if (auto joined = matmul.getRhs().getDefiningOp<ReshapeOp>(); isJoin(joined))
      llvm::copy(dimsOf(joined.getInput()).take_front(2), heads.begin());
    Value split = isJoin(scores) ? scores.getInput() : reshaped(rewriter, op.getInput(), heads);
    split = rewriter.create<SoftmaxOp>(op.getLoc(), split, /*axis=*/3, op.getZeroMasked());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, split, dims);
    return success();
  }
};

/// dropout(join(x)) = join(dropout(x)): its numbers are counted by element.
struct JoinAfterDropout : OpRewritePattern<DropoutOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DropoutOp op, PatternRewriter &rewriter) const override {
    auto joined = op.getInput().getDefiningOp<ReshapeOp>();
    if (!isJoin(joined) || !joined.getInput().getDefiningOp<SoftmaxOp>() || !joined->hasOneUse())
      return failure();
    llvm::SmallVector<Type, 2> types;
    for (Value result : op->getResults())
      types.push_back(tensorOf(result).clone(dimsOf(joined.getInput())));
    llvm::SmallVector<Value, 2> operands(op->getOperands());
    operands[0] = joined.getInput();
    OperationState state(op.getLoc(), op->getName(), operands, types, op->getAttrs());
    llvm::SmallVector<Value, 2> results;
    for (Value result : rewriter.create(state)->getResults())
      results.push_back(reshaped(rewriter, result, dimsOf(op.getInput())));
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// join(p) v = join(p split(v))
struct JoinAfterProduct : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto joined = op.getLhs().getDefiningOp<ReshapeOp>();
    if (!isJoin(joined) || !joined.getInput().getDefiningOp() ||
        !isa<SoftmaxOp, DropoutOp>(joined.getInput().getDefiningOp()) || op.getTransLhs() || op.getBias() ||
        tensorOf(op.getRhs()).getRank() != 3 || dimsOf(op.getRhs())[0] != dimsOf(joined)[0])
      return failure();
    Value values = splitHeads(rewriter, op.getRhs(), dimsOf(joined.getInput()));
    Value product = rewriter.create<MatmulOp>(op.getLoc(), joined.getInput(), values, Value(), /*trans_lhs=*/false,
                                              op.getTransRhs());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, product, dimsOf(op.getResult()));
    return success();
  }
};

} // namespace

void zc::importer::addHeadPatterns(RewritePatternSet &patterns) {
  patterns.add<SplitBeforeScores, SplitSoftmax, JoinAfterDropout, JoinAfterProduct>(patterns.getContext());
}
