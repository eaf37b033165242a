//===- VerifyZero.cpp - border check between graph and schedule -----------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_VERIFYZERO
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyZeroPass : impl::VerifyZeroBase<VerifyZeroPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    WalkResult result = getOperation().walk([&](Operation *op) {
      bool left = isa<graph::AccumulateGradOp, graph::ClipFactorOp, graph::UpdateOp>(op);
      if (auto read = dyn_cast<graph::ReadOp>(op))
        left = symbols.lookup<graph::ParameterOp>(read.getParameter()).getRole() != graph::Role::buffer;
      if (!left)
        return WalkResult::advance();
      op->emitOpError("belongs to the graph level; the zero level has buckets instead");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
} // namespace zc
