//===- VerifyPlanLevel.cpp - border check before emit ------------------------------------===//

#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"

namespace zc {
#define GEN_PASS_DEF_VERIFYPLANLEVEL
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyPlanLevelPass : impl::VerifyPlanLevelBase<VerifyPlanLevelPass> {
  void runOnOperation() override {
    for (Operation &op : *getOperation().getBody())
      if (!isa<plan::PlanDialect>(op.getDialect())) {
        op.emitOpError("does not belong to a plan");
        return signalPassFailure();
      }
  }
};
} // namespace
} // namespace zc
