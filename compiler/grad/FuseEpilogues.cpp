//===- FuseEpilogues.cpp - products that compute what follows them ---------------------------===//
//
// A GPU's product has its result in registers: what is element-wise behind it costs no pass over memory there. cuBLASLt
// does so with gelu's gradient. On CPUs a product is of blocks that are in the cache when the gradient comes: nothing
// is won.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEEPILOGUES
#include "compiler/grad/Passes.h.inc"

namespace {

/// What a chain of reshapes is of.
Value reshaped(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

struct FuseEpilogues : StagePass<impl::FuseEpiloguesBase<FuseEpilogues>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on || options.target != Target::cuda || options.modelRanks > 1)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto gradient : llvm::make_early_inc_range(program.getBlock().getOps<GeluGradOp>()))
        fused += gradient.getTanh() && fuse(gradient);
  }

private:
  bool isTaken(MatmulOp product) const {
    auto isMatrix = [](Value factor) { return shapeOf(factor).size() == 2; };
    return product && !product.getBias() && isMatrix(product.getLhs()) && isMatrix(product.getRhs()) &&
           bytesOfElement(elementOf(product.getResult())) == 2 && staysWhole(product.getRhs(), options);
  }

  bool fuse(GeluGradOp gradient) const {
    SmallVector<Operation *> replaced{gradient};
    Value grad = gradient.getGrad();
    for (; grad.hasOneUse() && grad.getDefiningOp<ReshapeOp>(); grad = replaced.back()->getOperand(0))
      replaced.push_back(grad.getDefiningOp());
    auto product = grad.getDefiningOp<MatmulOp>();
    if (!grad.hasOneUse() || !isTaken(product))
      return false;
    replaced.push_back(product);
    // Where the product stands, as early as before; what the gelu is of may be made again behind it.
    const Value input = reshaped(gradient.getInput());
    Operation *maker = input.getDefiningOp();
    OpBuilder builder(maker && !maker->isBeforeInBlock(product) ? gradient : product.getOperation());
    TensorBuilder on(builder, product.getLoc());
    Value made = on.create<LinearGeluGradOp>(product.getLhs(), product.getRhs(), on.reshape(input, shapeOf(grad)),
                                             product.getTransLhs(), product.getTransRhs());
    builder.setInsertionPoint(gradient);
    gradient.replaceAllUsesWith(on.reshape(made, shapeOf(gradient.getResult())));
    for (Operation *op : replaced)
      op->erase();
    return true;
  }
};

} // namespace

std::unique_ptr<Pass> createFuseEpilogues(const GradStage &options) { return std::make_unique<FuseEpilogues>(options); }

} // namespace zc
