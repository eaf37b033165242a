//===- AssignQueues.cpp - what executes each operation ---------------------------------===//

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

#include "llvm/ADT/TypeSwitch.h"

namespace zc {
#define GEN_PASS_DEF_ASSIGNQUEUES
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// The link between two tiers has a queue per direction.
plan::Queue queueOfCopy(Value from, Value to) {
  zero::Tier source = zero::tierOf(from.getType()), target = zero::tierOf(to.getType());
  if (source == zero::Tier::nvme)
    return plan::Queue::nvme_read;
  if (target == zero::Tier::nvme)
    return plan::Queue::nvme_write;
  return source == zero::Tier::host ? plan::Queue::h2d : plan::Queue::d2h;
}

plan::Queue queueOf(Operation *op) {
  auto where = [](Value value) {
    return zero::tierOf(value.getType()) == zero::Tier::device ? plan::Queue::compute : plan::Queue::host_compute;
  };
  return llvm::TypeSwitch<Operation *, plan::Queue>(op)
      .Case<zero::GatherOp, zero::ReduceScatterOp, zero::AllGatherOp, zero::AllReduceOp, zero::AllToAllOp,
            zero::ReduceLossOp>([](auto) { return plan::Queue::comm; })
      // What only prepares bytes for collectives, or takes them in, keeps to their queue: compute goes on beside it.
      .Case<zero::QuantizeOp, zero::DequantizeOp, zero::DequantizeSumQuantizeOp, zero::DequantizeSumOp, zero::OwnPartOp,
            zero::ReorderOp>([](auto) { return plan::Queue::comm; })
      .Case<zero::FetchOp, zero::EvictOp>([](auto copy) { return queueOfCopy(copy.getSource(), copy.getTarget()); })
      .Case([&](zero::FillOp fill) { return where(fill.getResult()); })
      .Case([&](zero::UpdateOp update) { return where(update.getWeights()); })
      .Case([&](zero::PublishOp publish) { return where(publish.getTarget()); })
      .Case([&](zero::NormPartialOp norm) { return where(norm.getGradient()); })
      .Case([&](zero::ClipFactorOp clip) { return where(clip.getSum()); })
      .Case([&](zero::AccumulateOp add) { return where(add.getTarget()); })
      .Default(plan::Queue::compute);
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
    zero::MeshOp declared = *module.getOps<zero::MeshOp>().begin();
    Mesh mesh{static_cast<int>(declared.getWorldSize()), static_cast<int>(declared.getLocal())};
    OpBuilder builder(&getContext());
    MachineModel machine = machineOf(module);
    for (auto program : module.getOps<graph::ProgramOp>()) {
      hoistAddresses(program.getBlock());
      for (Operation &op : program.getBlock()) {
        op.setAttr("plan.queue", plan::QueueAttr::get(&getContext(), queueOf(&op)));
        op.setAttr("plan.seconds", builder.getF64FloatAttr(secondsOf(&op, machine, mesh)));
      }
    }
  }
};
} // namespace
} // namespace zc
