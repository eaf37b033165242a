//===- EvictionWindow.cpp - how far compute runs ahead of what leaves the device ---------------===//

#include "compiler/schedule/EvictionWindow.h"
#include "compiler/schedule/QueueAssignment.h"
#include "compiler/schedule/TwoLargest.h"
#include "dialects/zero/Zero.h"

#include <deque>

using namespace mlir;
using namespace zc;

/// Bytes of the device that are free when `op` has copied them to the host.
static int64_t evictedBytes(Operation &op) {
  auto scheduled = dyn_cast<zero::ScheduledOp>(op);
  Value evicted = scheduled ? scheduled.getEvicted() : Value();
  return evicted ? zero::bytesOf(evicted.getType()) : 0;
}

void zc::boundEvictions(Block &block, llvm::function_ref<void(Operation *, Operation *)> waits) {
  const int64_t most = twoLargest(llvm::map_range(block, evictedBytes));
  std::deque<Operation *> leaving;
  int64_t bytes = 0;
  for (Operation &op : block) {
    if (int64_t more = evictedBytes(op); more > 0) {
      leaving.push_back(&op);
      bytes += more;
    }
    if (!isa<graph::KernelOp>(op) || assignedQueue(&op) != plan::Queue::compute)
      continue;
    for (; bytes > most; leaving.pop_front()) {
      waits(&op, leaving.front());
      bytes -= evictedBytes(*leaving.front());
    }
  }
}
