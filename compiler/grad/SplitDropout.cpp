//===- SplitDropout.cpp - dropout as its mask and a formula that fuses ------------------------===//
#include "compiler/grad/BuildFused.h"
#include "compiler/grad/Passes.h"
#include "dialects/graph/ElementType.h"
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_SPLITDROPOUT
#include "compiler/grad/Passes.h.inc"

namespace {

/// Has `op` a place in a program of tensors of this shape?
bool fusesWith(Operation *op, ArrayRef<int64_t> shape) {
  return op && op->getNumResults() == 1 && shapeOf(op->getResult(0)) == shape && findInstruction(op);
}

bool isBesideElementwise(DropoutOp op) {
  auto type = dtypeOf(elementOf(op.getInput()));
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  return type && isFusedType(*type) &&
         (fusesWith(op.getInput().getDefiningOp(), shape) ||
          llvm::any_of(op.getResult().getUsers(), [&](Operation *user) { return fusesWith(user, shape); }));
}

void split(DropoutOp op) {
  OpBuilder builder(op);
  auto mask = builder.create<DropoutMaskOp>(op.getLoc(), shapeOf(op.getResult()), op.getRatio(), op.getId(),
                                            op.getRunAttr(), op.getStrideAttr());
  Value kept = builder.create<DropoutGradOp>(op.getLoc(), op.getInput(), mask, op.getRatio());
  op.getResult().replaceAllUsesWith(kept);
  op.getMask().replaceAllUsesWith(mask);
  op.erase();
}

struct SplitDropout : StagePass<impl::SplitDropoutBase<SplitDropout>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto dropout : llvm::make_early_inc_range(program.getBlock().getOps<DropoutOp>()))
        if (isBesideElementwise(dropout))
          split(dropout);
  }
};

} // namespace

std::unique_ptr<Pass> createSplitDropout(const GradStage &options) { return std::make_unique<SplitDropout>(options); }

} // namespace zc
