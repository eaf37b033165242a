//===- JoinUpdate.cpp - the update beside backward ----------------------------------------===//

#include "compiler/schedule/Assigned.h"
#include "compiler/schedule/Passes.h"
#include "dialects/graph/Graph.h"
#include "dialects/zero/Execution.h"

namespace zc {
#define GEN_PASS_DEF_JOINUPDATE
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// Does anything but compute and the communication of the device's own update take part?
bool leavesDevice(graph::ProgramOp program) {
  WalkResult result = program.walk([](Operation *op) {
    plan::Queue queue = assignedQueue(op);
    return queue != plan::Queue::compute && queue != plan::Queue::comm ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
  });
  return result.wasInterrupted();
}

struct JoinUpdatePass : impl::JoinUpdateBase<JoinUpdatePass> {
  void runOnOperation() override {
    if (zero::microExecutionsOf(getOperation()) > 1 || zero::executionOf(getOperation()).delayAfter)
      return;
    graph::ProgramOp micro = graph::programOf(getOperation(), graph::Phase::micro),
                     update = graph::programOf(getOperation(), graph::Phase::update);
    if (!micro || !update || !leavesDevice(update))
      return;
    Operation *end = micro.getBlock().getTerminator();
    for (Operation &op : llvm::make_early_inc_range(update.getBlock().without_terminator()))
      op.moveBefore(end);
  }
};

} // namespace
} // namespace zc
