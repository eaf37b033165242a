//===- CostModel.cpp - roofline for compute, bytes on the wire for collectives ---------===//

#include "compiler/schedule/CostModel.h"
#include "dialects/zero/Zero.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc;

static double bytesOf(Value value) { return static_cast<double>(zero::bytesOf(value.getType())); }

static double secondsOfKernel(graph::KernelOp kernel, const MachineModel &machine) {
  if (graph::isView(kernel))
    return 0;
  return machine.stepOverhead +
         std::max(kernel.getFlops() / machine.flopsPerSecond, kernel.getBytes() / machine.memoryBandwidth);
}

/// Bytes over the link from `from` to `to`.
static double secondsOfCopy(Value from, Value to, const MachineModel &machine) {
  double rate = zero::tierOf(from.getType()) == zero::Tier::host ? machine.h2dBandwidth : machine.d2hBandwidth;
  if (zero::tierOf(from.getType()) == zero::Tier::nvme)
    rate = machine.nvmeReadBandwidth;
  else if (zero::tierOf(to.getType()) == zero::Tier::nvme)
    rate = machine.nvmeWriteBandwidth;
  return machine.stepOverhead + bytesOf(from) / rate;
}

/// A member's part of `whole` to every other member: the two kinds of links beside each other.
static double secondsOfCollective(Value whole, zero::Axis along, const MachineModel &machine, const Mesh &mesh) {
  auto axis = static_cast<Axis>(along);
  int near = axis == Axis::node ? 0 : mesh.ranksPerNode - 1, far = mesh.size(axis) - 1 - near;
  double part = bytesOf(whole) / mesh.size(axis);
  return machine.stepOverhead +
         std::max(part * near / machine.commBandwidth, part * far * mesh.ranksPerNode / machine.nodeBandwidth);
}

MachineModel zc::machineOf(ModuleOp module) {
  MachineModel machine;
  if (auto given = module->getAttrOfType<DictionaryAttr>("zc.machine"))
    for (const MachineModel::Field &field : MachineModel::kFields)
      if (auto rate = given.getAs<FloatAttr>(field.name))
        machine.*field.rate = rate.getValueAsDouble();
  return machine;
}

double zc::secondsOf(Operation *op, const MachineModel &machine, const Mesh &mesh) {
  auto sent = [&](Value whole, zero::Axis axis = zero::Axis::all) {
    return secondsOfCollective(whole, axis, machine, mesh);
  };
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](graph::KernelOp kernel) { return secondsOfKernel(kernel, machine); })
      .Case<zero::ViewOp, zero::PartOp, zero::StorageOp, zero::AllocOp, zero::ReleaseOp, zero::PutOp, graph::ReturnOp,
            graph::ReadOp>([](auto) { return 0.0; })
      .Case([&](zero::GatherOp gather) { return sent(gather.getResult(), gather.getAxis()); })
      .Case([&](zero::AllGatherOp gather) { return sent(gather.getWhole()); })
      .Case([&](zero::ReduceScatterOp reduce) { return sent(reduce.getBuffer(), reduce.getAxis()); })
      .Case([&](zero::AllToAllOp all) { return sent(all.getInput(), all.getAxis()); })
      .Case<zero::QuantizeOp, zero::DequantizeOp, zero::DequantizeSumQuantizeOp, zero::OwnPartOp>([&](auto kernel) {
        return machine.stepOverhead +
               (bytesOf(kernel.getInput()) + bytesOf(kernel.getResult())) / machine.memoryBandwidth;
      })
      .Case([&](zero::DequantizeSumOp sum) {
        return machine.stepOverhead + (bytesOf(sum.getInput()) + bytesOf(sum.getShard())) / machine.memoryBandwidth;
      })
      .Case([&](zero::ReorderOp copy) {
        return machine.stepOverhead + 2 * bytesOf(copy.getInput()) / machine.memoryBandwidth;
      })
      .Case([&](zero::FetchOp copy) { return secondsOfCopy(copy.getSource(), copy.getTarget(), machine); })
      .Case([&](zero::EvictOp copy) { return secondsOfCopy(copy.getSource(), copy.getTarget(), machine); })
      .Case([&](zero::UpdateOp update) { // gradient, weights and moments in; weights, moments and the copy out
        double bytes = bytesOf(update.getGradient()) + 2 * bytesOf(update.getWeights());
        for (Value moment : update.getMoments())
          bytes += 2 * bytesOf(moment);
        return machine.stepOverhead +
               (bytes + (update.getCopy() ? bytesOf(update.getCopy()) : 0)) / machine.memoryBandwidth;
      })
      .Case([&](zero::PublishOp publish) {
        return machine.stepOverhead +
               (bytesOf(publish.getSource()) + bytesOf(publish.getTarget())) / machine.memoryBandwidth;
      })
      .Case([&](zero::NormPartialOp norm) {
        return machine.stepOverhead + bytesOf(norm.getGradient()) / machine.memoryBandwidth;
      })
      .Case([&](zero::AccumulateOp add) {
        return machine.stepOverhead + 3 * bytesOf(add.getSource()) / machine.memoryBandwidth;
      })
      .Default(machine.stepOverhead); // grad_buffer: only its gaps
}
