//===- AssignQueues.cpp - what executes each operation ---------------------------------===//

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_ASSIGNQUEUES
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {
struct AssignQueuesPass : impl::AssignQueuesBase<AssignQueuesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = module.getOps<zero::MeshOp>();
    if (meshes.empty()) {
      module.emitError("assign-queues needs the zero level: there is no zero.mesh");
      return signalPassFailure();
    }
    int64_t worldSize = (*meshes.begin()).getWorldSize();
    OpBuilder builder(&getContext());
    for (auto program : module.getOps<graph::ProgramOp>())
      for (Operation &op : program.getBlock()) {
        bool communicates =
            isa<zero::GatherOp, zero::ReduceScatterOp, zero::AllGatherOp, zero::AllReduceOp, zero::ReduceLossOp>(op);
        op.setAttr("plan.queue",
                   plan::QueueAttr::get(&getContext(), communicates ? plan::Queue::comm : plan::Queue::compute));
        op.setAttr("plan.seconds", builder.getF64FloatAttr(secondsOf(&op, MachineModel(), worldSize)));
      }
  }
};
} // namespace
} // namespace zc
