//===- Prefetch.cpp - gather ahead of use ------------------------------------------------===//

#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_PREFETCH
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

int64_t bytesOf(zero::GatherOp gather) { return zero::bytesOf(gather.getType()); }

double secondsOf(Operation &op) {
  auto attr = op.getAttrOfType<FloatAttr>("plan.seconds");
  return attr ? attr.getValueAsDouble() : 0;
}

struct PrefetchPass : impl::PrefetchBase<PrefetchPass> {
  using PrefetchBase::PrefetchBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<graph::ProgramOp>()) {
      SmallVector<zero::GatherOp> gathers(program.getBlock().getOps<zero::GatherOp>());
      int64_t window = bytes < 0 ? twoLargest(gathers) : bytes;
      if (window == 0)
        continue;
      for (auto [index, gather] : llvm::enumerate(gathers))
        moveUp(gather, index == 0 ? nullptr : gathers[index - 1].getOperation(), window);
    }
  }

  static int64_t twoLargest(ArrayRef<zero::GatherOp> gathers) {
    int64_t first = 0, second = 0;
    for (zero::GatherOp gather : gathers) {
      int64_t size = bytesOf(gather);
      second = std::max(second, std::min(first, size));
      first = std::max(first, size);
    }
    return first + second;
  }

  /// Up past compute that hides it, not past the gather before it, nor where more than `window` bytes of gathered
  /// buffers would wait for their first use.
  void moveUp(zero::GatherOp gather, Operation *previousGather, int64_t window) {
    double hidden = 0, wanted = secondsOf(*gather);
    int64_t ahead = bytesOf(gather);
    Operation *place = gather, *shard = gather.getShard().getDefiningOp();
    for (Operation *op = gather->getPrevNode(); op && op != previousGather && op != shard && hidden < wanted;
         op = op->getPrevNode()) {
      // Above this op, the buffers of gathers whose first view is here are waiting too.
      if (auto view = dyn_cast<zero::ViewOp>(op))
        if (auto other = view.getBuffer().getDefiningOp<zero::GatherOp>(); other && counted.insert(other).second)
          ahead += bytesOf(other);
      if (ahead > window)
        break;
      hidden += secondsOf(*op);
      place = op;
    }
    counted.clear();
    if (place == gather)
      return;
    gather->moveBefore(place);
    ++numMoved;
  }

  llvm::SmallPtrSet<Operation *, 4> counted;
};

} // namespace
} // namespace zc
