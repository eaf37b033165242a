//===- RepeatKeys.cpp - heads of keys that several ranks share ------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_REPEATKEYS
#include "compiler/grad/Passes.h.inc"

namespace {

int64_t headsOf(Value value) { return shapeOf(value)[1]; }

struct RepeatKeys : StagePass<impl::RepeatKeysBase<RepeatKeys>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto op : program.getOps<AttentionOp>()) {
        if (!hasHeads(op))
          return signalPassFailure();
        repeat(op);
      }
  }

private:
  /// An attention of fewer heads would be computed whole on all ranks: most of a transformer's work.
  bool hasHeads(AttentionOp op) {
    const int64_t heads = headsOf(op.getQuery());
    if (heads < 2 || heads >= options.modelRanks)
      return true;
    op.emitError("an attention of ") << heads << " heads is not shared by " << options.modelRanks
                                     << " ranks: --tensor-parallel of at most " << heads;
    return false;
  }

  void repeat(AttentionOp op) {
    const int64_t ranks = options.modelRanks, keys = headsOf(op.getKey());
    if (keys < 2 || keys >= ranks || ranks % keys != 0 || headsOf(op.getQuery()) % ranks != 0)
      return;
    OpBuilder builder(op);
    TensorBuilder on(builder, op.getLoc());
    op.getKeyMutable().assign(repeatHeads(on, op.getKey(), ranks));
    op.getValueMutable().assign(repeatHeads(on, op.getValue(), ranks));
    ++repeated;
  }
};

} // namespace

std::unique_ptr<Pass> createRepeatKeys(const GradStage &options) { return std::make_unique<RepeatKeys>(options); }

} // namespace zc
