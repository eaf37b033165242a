//===- Linear.cpp - transposes and biases become part of the product -------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// A transpose that swaps the last two dimensions becomes a flag; one that also permutes others keeps those.
struct FoldTransposeIntoMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    for (unsigned side = 0; side < 2; ++side) {
      auto transpose = op->getOperand(side).getDefiningOp<TransposeOp>();
      if (!transpose)
        continue;
      llvm::SmallVector<int64_t> permutation(transpose.getPermutation());
      int64_t rank = permutation.size();
      if (permutation[rank - 2] < permutation[rank - 1])
        continue;
      std::swap(permutation[rank - 2], permutation[rank - 1]);
      Value operand = transpose.getInput();
      if (!llvm::is_sorted(permutation)) // the rest is still to be permuted
        operand = rewriter.create<TransposeOp>(transpose.getLoc(), operand, permutation);
      rewriter.modifyOpInPlace(op, [&] {
        op->setOperand(side, operand);
        side == 0 ? op.setTransLhs(!op.getTransLhs()) : op.setTransRhs(!op.getTransRhs());
      });
      return success();
    }
    return failure();
  }
};

/// matmul(a, b) + bias, also with a reshape of the rows in between.
struct FoldBiasIntoMatmul : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value product, Value bias) { return fold(op, product, bias, rewriter); }));
  }

  static bool fold(AddOp op, Value product, Value bias, PatternRewriter &rewriter) {
    if (!sameType(product, op.getResult()) || tensorOf(bias).getRank() != 1 || !product.hasOneUse())
      return false;
    auto reshape = product.getDefiningOp<ReshapeOp>();
    Value source = reshape ? reshape.getInput() : product;
    auto matmul = source.getDefiningOp<MatmulOp>();
    if (!matmul || matmul.getBias() || !source.hasOneUse())
      return false;
    int64_t columns = dimsOf(source).back();
    if (dimsOf(product).back() != columns || dimsOf(bias)[0] != columns)
      return false;
    Value sum = rewriter.create<MatmulOp>(matmul.getLoc(), matmul.getLhs(), matmul.getRhs(), bias, matmul.getTransLhs(),
                                          matmul.getTransRhs());
    if (reshape)
      sum = rewriter.create<ReshapeOp>(reshape.getLoc(), sum, reshape.getShape());
    rewriter.replaceOp(op, sum);
    return true;
  }
};

} // namespace

void zc::importer::addLinearPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldTransposeIntoMatmul, FoldBiasIntoMatmul>(patterns.getContext());
}
