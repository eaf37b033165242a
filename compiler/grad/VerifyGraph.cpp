//===- VerifyGraph.cpp - border check of the graph level ----------------------===//
#include "compiler/grad/Passes.h"

using namespace mlir;

namespace zc {

#define GEN_PASS_DEF_VERIFYGRAPH
#include "compiler/grad/Passes.h.inc"

namespace {
struct VerifyGraph : impl::VerifyGraphBase<VerifyGraph> {
  void runOnOperation() override {
    getOperation()->walk([&](Operation *op) {
      bool isOfLevel = isa_and_nonnull<graph::GraphDialect>(op->getDialect()) || isa<graph::KernelOp>(op);
      if (op == getOperation() || isOfLevel)
        return;
      op->emitOpError("is of another level: only graph operations and kernels belong here");
      signalPassFailure();
    });
    markAllAnalysesPreserved();
  }
};
} // namespace

} // namespace zc
