//===- Rotation.cpp - halves of a dimension that change places -------------------===//
//
// concat(-x2, x1) of the halves x1, x2 of x's last dimension, as in rotary positions (Su et al., arXiv 2104.09864; the
// form with halves, not with neighbours), is one slice, backwards over the two halves, times signs: the slice is one
// copy instead of four, and the product is element-wise work of the chain that it stands in. The bits are the same.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// Half of dimension `axis` of `whole`, all of the others.
struct Half {
  Value whole;
  bool isSecond;
  bool isNegative;
};

std::optional<Half> halfOf(Value value, int64_t axis) {
  bool isNegative = false;
  if (auto neg = value.getDefiningOp<NegOp>()) {
    isNegative = true;
    value = neg.getInput();
  }
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return std::nullopt;
  llvm::ArrayRef<int64_t> whole = dimsOf(slice.getInput()), part = dimsOf(slice.getResult());
  for (int64_t d = 0, rank = static_cast<int64_t>(whole.size()); d < rank; ++d) {
    bool fits = d == axis ? whole[d] == 2 * part[d] && slice.getOffsets()[d] % part[d] == 0
                          : whole[d] == part[d] && slice.getOffsets()[d] == 0;
    if (!fits || slice.getStrides()[d] != 1)
      return std::nullopt;
  }
  return Half{slice.getInput(), slice.getOffsets()[axis] != 0, isNegative};
}

struct RaiseRotation : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    const auto axis = static_cast<int64_t>(op.getAxis());
    if (op.getInputs().size() != 2 || !isa<FloatType>(tensorOf(op.getResult()).getElementType()) ||
        tensorOf(op.getResult()).getNumElements() == 0)
      return failure();
    std::optional<Half> first = halfOf(op.getInputs()[0], axis), second = halfOf(op.getInputs()[1], axis);
    if (!first || !second || first->whole != second->whole || !first->isSecond || second->isSecond)
      return failure();
    Value swapped = TensorBuilder(rewriter, op.getLoc()).turnParts(first->whole, axis, 2);
    if (!first->isNegative && !second->isNegative) {
      rewriter.replaceOp(op, swapped);
      return success();
    }
    rewriter.replaceOpWithNewOp<MulOp>(op, swapped, signs(rewriter, op, axis, first->isNegative, second->isNegative));
    return success();
  }

  /// -1 or 1 along dimension `axis`, which broadcasts over the others.
  static Value signs(PatternRewriter &rewriter, ConcatOp op, int64_t axis, bool isFirst, bool isSecond) {
    llvm::ArrayRef<int64_t> dims = dimsOf(op.getResult());
    llvm::SmallVector<int64_t> shape(dims.drop_front(axis));
    std::fill(shape.begin() + 1, shape.end(), 1);
    Type element = tensorOf(op.getResult()).getElementType();
    const auto half = static_cast<size_t>(shape[0] / 2);
    llvm::SmallVector<Attribute> values(half, rewriter.getFloatAttr(element, isFirst ? -1 : 1));
    values.append(half, rewriter.getFloatAttr(element, isSecond ? -1 : 1));
    return rewriter.create<ConstantOp>(op.getLoc(),
                                       DenseElementsAttr::get(RankedTensorType::get(shape, element), values));
  }
};

} // namespace

void zc::importer::addRotationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseRotation>(patterns.getContext());
}
