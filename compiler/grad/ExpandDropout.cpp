//===- ExpandDropout.cpp - attention that drops, as plain operations -----------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"

#include <limits>

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_EXPANDDROPOUT
#include "compiler/grad/Passes.h.inc"

namespace {

/// softmax(scale Q K^T + mask)
Value buildProbabilities(TensorBuilder &on, AttentionOp op) {
  const int64_t heads = shapeOf(op.getQuery())[1];
  Value scores = on.make<MatmulOp>(op.getQuery(), repeatHeads(on, op.getKey(), heads), Value(), /*transLhs=*/false,
                                   /*transRhs=*/true);
  const Value lowest = on.scalar(-std::numeric_limits<double>::infinity(), scores);
  if (double scale = op.getScale().convertToDouble(); scale != 1)
    scores = on.scale(scores, scale);
  if (Value mask = op.getMask()) {
    if (!isa<FloatType>(elementOf(mask)))
      scores = on.select(mask, scores, lowest);
    else
      scores = on.add(scores, elementOf(mask) == elementOf(scores) ? mask : on.make<CastOp>(mask, elementOf(scores)));
  }
  if (ArrayRef<int64_t> shape = shapeOf(scores); op.getCausal())
    scores = on.select(laterKeys(on, op.getContext(), shape[2], shape[3]), lowest, scores);
  return on.make<SoftmaxOp>(scores, uint64_t(3), /*zeroMasked=*/true);
}

struct ExpandDropout : impl::ExpandDropoutBase<ExpandDropout> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto op : llvm::to_vector(program.getOps<AttentionOp>())) {
        if (!op.getDropout() || !op.getLse().use_empty())
          continue;
        OpBuilder builder(op);
        TensorBuilder on(builder, op.getLoc());
        Value kept = on.make<DropoutOp>(buildProbabilities(on, op), Value(), op.getDropoutAttr(), op.getDropoutIdAttr(),
                                        IntegerAttr(), IntegerAttr());
        Value values = repeatHeads(on, op.getValue(), shapeOf(op.getQuery())[1]);
        op.getResult().replaceAllUsesWith(on.make<MatmulOp>(kept, values, Value(), false, false));
        op.erase();
        ++expanded;
      }
  }
};

} // namespace
} // namespace zc
