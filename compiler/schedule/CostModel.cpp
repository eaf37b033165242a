//===- CostModel.cpp - roofline for compute, bytes on the wire for collectives ---------===//

#include "compiler/schedule/CostModel.h"
#include "dialects/zero/Zero.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc;

static double bytesOf(zero::BucketOp bucket) {
  return static_cast<double>(bucket.getPadded()) * bucket.getType().getIntOrFloatBitWidth() / 8;
}

/// The bucket a zero op names, or null.
static zero::BucketOp bucketOf(Operation *op) {
  auto symbol = op->getAttrOfType<FlatSymbolRefAttr>("bucket");
  return symbol ? SymbolTable::lookupNearestSymbolFrom<zero::BucketOp>(op, symbol) : nullptr;
}

double zc::secondsOf(Operation *op, const MachineModel &machine, int64_t worldSize) {
  if (auto kernel = dyn_cast<graph::KernelOp>(op)) {
    if (kernel.getViewOperand() >= 0)
      return 0;
    return machine.stepOverhead +
           std::max(kernel.getFlops() / machine.flopsPerSecond, kernel.getBytes() / machine.memoryBandwidth);
  }
  if (isa<zero::ViewOp, zero::ResidentOp, zero::ReleaseOp, zero::PutOp, graph::ReturnOp, graph::ReadOp>(op))
    return 0;
  zero::BucketOp bucket = bucketOf(op);
  if (!bucket)
    return machine.stepOverhead;
  double bytes = bytesOf(bucket), share = static_cast<double>(worldSize - 1) / static_cast<double>(worldSize);
  if (isa<zero::GatherOp, zero::ReduceScatterOp, zero::AllGatherOp>(op))
    return machine.stepOverhead + bytes * share / machine.commBandwidth;
  if (isa<zero::UpdateOp>(op)) // gradient, master and two moments in, three out, per element of the rank's part
    return machine.stepOverhead +
           7 * bytes / (bucket.getOptimizerSharded() ? static_cast<double>(worldSize) : 1.0) / machine.memoryBandwidth;
  if (isa<zero::NormPartialOp>(op))
    return machine.stepOverhead + bytes / static_cast<double>(worldSize) / machine.memoryBandwidth;
  return machine.stepOverhead; // grad_buffer: only its gaps
}
