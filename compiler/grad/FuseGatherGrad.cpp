//===- FuseGatherGrad.cpp - sums of slices, added onto another gradient -----------------------===//
//
// A table of rows that is both looked up and multiplied with (an embedding that the head is tied to) has two gradients.
// The product's is whole; that of the lookup is zeros but for the rows of the batch. Alone it is a tensor of the
// table's size that is zeroed, read and added; onto the product's only the batch's rows are touched.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEGATHERGRAD
#include "compiler/grad/Passes.h.inc"

namespace {

/// The gradient of a lookup that `sum` adds and nobody else needs; null if there is none.
GatherGradOp lookupOf(Value operand) {
  auto gradient = operand.getDefiningOp<GatherGradOp>();
  return gradient && !gradient.getOnto() && operand.hasOneUse() ? gradient : GatherGradOp();
}

struct FuseGatherGrad : StagePass<impl::FuseGatherGradBase<FuseGatherGrad>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto sum : llvm::make_early_inc_range(program.getBlock().getOps<AddOp>()))
        fused += staysWhole(sum.getResult(), options) && fuse(sum); // of parts that are cut others are added up
  }

private:
  static bool fuse(AddOp sum) {
    Value onto = sum.getLhs();
    GatherGradOp gradient = lookupOf(sum.getRhs());
    if (!gradient) {
      onto = sum.getRhs();
      gradient = lookupOf(sum.getLhs());
    }
    if (!gradient || onto.getType() != sum.getResult().getType() || onto == gradient.getResult())
      return false;
    OpBuilder builder(sum);
    TensorBuilder on(builder, gradient.getLoc());
    sum.replaceAllUsesWith(on.make<GatherGradOp>(gradient.getGrad(), gradient.getIndices(), onto, gradient.getShape(),
                                                 gradient.getAxis()));
    sum.erase();
    gradient.erase();
    return true;
  }
};

} // namespace

std::unique_ptr<Pass> createFuseGatherGrad(const GradStage &options) {
  return std::make_unique<FuseGatherGrad>(options);
}

} // namespace zc
