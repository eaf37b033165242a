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

struct RepeatKeys : StagePass<impl::RepeatKeysBase<RepeatKeys>, GradOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    const int64_t ranks = options.modelRanks;
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto op : program.getOps<AttentionOp>()) {
        const int64_t keys = headsOf(op.getKey());
        if (keys < 2 || keys >= ranks || ranks % keys != 0 || headsOf(op.getQuery()) % ranks != 0)
          continue;
        OpBuilder builder(op);
        TensorBuilder on(builder, op.getLoc());
        op.getKeyMutable().assign(repeatHeads(on, op.getKey(), ranks));
        op.getValueMutable().assign(repeatHeads(on, op.getValue(), ranks));
        ++repeated;
      }
  }
};

} // namespace

std::unique_ptr<Pass> createRepeatKeys(const GradOptions &options) { return std::make_unique<RepeatKeys>(options); }

} // namespace zc
