//===- Leaving.cpp - how far compute runs ahead of what leaves the device ---------------===//

#include "compiler/schedule/Leaving.h"
#include "compiler/schedule/Assigned.h"
#include "compiler/schedule/TwoLargest.h"
#include "dialects/zero/Zero.h"

#include <deque>

using namespace mlir;
using namespace zc;

/// Bytes of the device that are free when `op` has copied them to the host.
static int64_t bytesLeaving(Operation &op) {
  auto scheduled = dyn_cast<zero::ScheduledOp>(op);
  Value evicted = scheduled ? scheduled.getEvicted() : Value();
  return evicted ? zero::bytesOf(evicted.getType()) : 0;
}

void zc::boundLeaving(Block &block, llvm::function_ref<void(Operation *, Operation *)> waits) {
  const int64_t most = twoLargest(llvm::map_range(block, bytesLeaving));
  std::deque<Operation *> leaving;
  int64_t bytes = 0;
  for (Operation &op : block) {
    if (int64_t more = bytesLeaving(op); more > 0) {
      leaving.push_back(&op);
      bytes += more;
    }
    if (!isa<graph::KernelOp>(op) || assignedQueue(&op) != plan::Queue::compute)
      continue;
    for (; bytes > most; leaving.pop_front()) {
      waits(&op, leaving.front());
      bytes -= bytesLeaving(*leaving.front());
    }
  }
}
