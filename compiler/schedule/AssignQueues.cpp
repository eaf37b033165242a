//===- AssignQueues.cpp - what executes each operation ---------------------------------===//

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/QueueAssignment.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_ASSIGNQUEUES
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// The link between two tiers has a queue per direction.
plan::Queue queueOfCopy(zero::Tier from, zero::Tier to) {
  if (from == zero::Tier::nvme)
    return plan::Queue::nvme_read;
  if (to == zero::Tier::nvme)
    return plan::Queue::nvme_write;
  return from == zero::Tier::host ? plan::Queue::h2d : plan::Queue::d2h;
}

plan::Queue queueOf(const zero::Work &work) {
  switch (work.kind) {
  case zero::Work::Kind::communication:
    return plan::Queue::comm;
  case zero::Work::Kind::copy:
    return queueOfCopy(work.tier, work.target);
  case zero::Work::Kind::address:
  case zero::Work::Kind::none:
  case zero::Work::Kind::compute:
    return work.tier == zero::Tier::device ? plan::Queue::compute : plan::Queue::host_compute;
  }
  return plan::Queue::compute;
}

/// Storage is an address: it comes first, so that what uses it may run as early as it can.
void hoistAddresses(Block &block) {
  for (auto storage : llvm::make_early_inc_range(block.getOps<zero::StorageOp>()))
    storage->moveBefore(&block, block.begin());
}

struct AssignQueuesPass : impl::AssignQueuesBase<AssignQueuesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.getOps<zero::MeshOp>().empty()) {
      module.emitError("assign-queues needs the zero level: there is no zero.mesh");
      return signalPassFailure();
    }
    const Mesh mesh = zero::meshOf(module);
    MachineModel machine = machineOf(module);
    for (auto program : module.getOps<graph::ProgramOp>()) {
      hoistAddresses(program.getBlock());
      if (Operation *border = program.getBackward()) // both halves are one schedule
        border->erase();
      for (Operation &op : program.getBlock()) {
        auto load = dyn_cast<zero::LoadOp>(op);
        auto isAssigned = [&](Operation &part) { return succeeded(assignOne(&part, machine, mesh)); };
        if (!(load ? llvm::all_of(load.getBlock().without_terminator(), isAssigned) : isAssigned(op)))
          return signalPassFailure();
      }
    }
  }

  static LogicalResult assignOne(Operation *op, const MachineModel &machine, const Mesh &mesh) {
    auto scheduled = dyn_cast<zero::ScheduledOp>(op);
    if (!scheduled)
      return op->emitOpError("cannot be scheduled: it says neither by ScheduledOp nor by KernelOp what executes it");
    zero::Work work = scheduled.getWork();
    assign(op, queueOf(work), secondsOf(work, machine, mesh));
    return success();
  }
};
} // namespace
} // namespace zc
