//===- ExpandDropout.cpp - attention that drops, as plain operations -----------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/cuda/Workspace.h"

#include <limits>

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_EXPANDDROPOUT
#include "compiler/grad/Passes.h.inc"

namespace {

/// softmax(scores + mask)
Value buildProbabilities(TensorBuilder &on, AttentionOp op) {
  const int64_t heads = shapeOf(op.getQuery())[1];
  Value scores =
      scaledScores(on, op,
                   on.make<MatmulOp>(op.getQuery(), repeatHeads(on, op.getKey(), heads), Value(), /*transLhs=*/false,
                                     /*transRhs=*/true));
  const Value lowest = on.scalar(-std::numeric_limits<double>::infinity(), scores);
  if (Value mask = op.getMask()) {
    if (!isa<FloatType>(elementOf(mask)))
      scores = on.select(mask, scores, lowest);
    else
      scores = on.add(scores, elementOf(mask) == elementOf(scores) ? mask : on.make<CastOp>(mask, elementOf(scores)));
  }
  if (Value hidden = keysOutOfPlace(on, op))
    scores = on.select(hidden, lowest, scores);
  return on.make<SoftmaxOp>(scores, uint64_t(3), /*zeroMasked=*/true);
}

struct ExpandDropout : StagePass<impl::ExpandDropoutBase<ExpandDropout>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto op : llvm::to_vector(program.getOps<AttentionOp>())) {
        if (!op.getDropout() || !op.getLse().use_empty() || isFastAsItIs(op))
          continue;
        OpBuilder builder(op);
        TensorBuilder on(builder, op.getLoc());
        Value kept = on.make<DropoutOp>(buildProbabilities(on, op), op.getDropoutAttr(), op.getDropoutIdAttr(),
                                        IntegerAttr(), IntegerAttr());
        Value values = repeatHeads(on, op.getValue(), shapeOf(op.getQuery())[1]);
        op.getResult().replaceAllUsesWith(on.make<MatmulOp>(kept, values, Value(), false, false));
        op.erase();
        ++expanded;
      }
  }

private:
  bool isFastAsItIs(AttentionOp op) const {
    FailureOr<KernelSpec> spec = toKernelSpec(op);
    if (failed(spec))
      return false;
    Result<shapes::AttentionShape> shape = shapes::readAttention(*spec);
    return shape.ok() && cuda::isOnTensorCores(*shape);
  }
};

} // namespace

std::unique_ptr<Pass> createExpandDropout(const GradStage &options) { return std::make_unique<ExpandDropout>(options); }

} // namespace zc
