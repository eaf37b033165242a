//===- CostModel.cpp - roofline for compute, bytes on the wire for collectives ---------===//

#include "compiler/schedule/CostModel.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/Plan.h"

using namespace mlir;
using namespace zc;

/// Bytes over the link between two tiers.
static double secondsOfCopy(const zero::Work &work, const MachineModel &machine) {
  double rate = work.tier == zero::Tier::host ? machine.h2dBandwidth : machine.d2hBandwidth;
  if (work.tier == zero::Tier::nvme)
    rate = machine.nvmeReadBandwidth;
  else if (work.target == zero::Tier::nvme)
    rate = machine.nvmeWriteBandwidth;
  return work.bytes / rate;
}

/// A member's part of the whole to every other member: the two kinds of links beside each other.
static double secondsOnWire(const zero::Work &work, const MachineModel &machine, const Mesh &mesh) {
  AxisSet axes = zero::axesOf(work.axes, mesh);
  int near = mesh.sizeOnNode(axes) - 1, far = mesh.size(axes) - 1 - near;
  double part = work.gathered / mesh.size(axes);
  return std::max(part * near / machine.commBandwidth, part * far * mesh.ranksPerNode() / machine.nodeBandwidth);
}

void zc::setMachine(ModuleOp module, const MachineModel &machine) {
  module->setAttr(plan::MachineAttr::name, plan::MachineAttr::get(module.getContext(), machine));
}

MachineModel zc::machineOf(ModuleOp module) {
  auto given = module->getAttrOfType<plan::MachineAttr>(plan::MachineAttr::name);
  MachineModel machine = given ? given.getRates() : MachineModel();
  const graph::Training training = graph::trainingOf(module);
  if (machine.halfFlopsPerSecond > 0 && training.precision != Precision::fp32)
    machine.flopsPerSecond = machine.halfFlopsPerSecond;
  else if (machine.tf32FlopsPerSecond > 0 && training.matmulPrecision == MatmulPrecision::tf32)
    machine.flopsPerSecond = machine.tf32FlopsPerSecond;
  if (machine.hostMemoryBandwidth <= 0)
    machine.hostMemoryBandwidth = machine.memoryBandwidth;
  return machine;
}

double zc::secondsOf(const zero::Work &work, const MachineModel &machine, const Mesh &mesh) {
  switch (work.kind) {
  case zero::Work::Kind::address:
  case zero::Work::Kind::none:
    return 0;
  case zero::Work::Kind::copy:
    return machine.stepOverhead + secondsOfCopy(work, machine);
  case zero::Work::Kind::communication:
  case zero::Work::Kind::compute:
    break;
  }
  double memory = work.tier == zero::Tier::device ? machine.memoryBandwidth : machine.hostMemoryBandwidth;
  return machine.stepOverhead +
         std::max({work.flops / machine.flopsPerSecond, work.bytes / memory, secondsOnWire(work, machine, mesh)});
}
