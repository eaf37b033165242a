//===- Prefetch.cpp - gather ahead of use ------------------------------------------------===//

#include "compiler/schedule/MemoryUse.h"
#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_PREFETCH
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

double secondsOf(Operation *op) {
  auto attr = op->getAttrOfType<FloatAttr>("plan.seconds");
  return attr ? attr.getValueAsDouble() : 0;
}

/// A gather and what only serves it: quantization and an earlier hop before it, dequantization, a part that is kept and
/// reordering after it. They move together.
struct Gathering {
  SmallVector<Operation *> operations; ///< in program order
  Value buffer;                        ///< what views look into
  int64_t bytes = 0;                   ///< of it
  double seconds = 0;

  explicit Gathering(zero::GatherOp gather) : buffer(gather.getResult()) {
    for (Operation *op = gather.getShard().getDefiningOp(); servesAlone(op); op = op->getOperand(0).getDefiningOp())
      operations.insert(operations.begin(), op);
    operations.push_back(gather);
    for (Operation *user : gather->getUsers()) {
      if (auto reorder = dyn_cast<zero::ReorderOp>(user)) {
        buffer = reorder.getTarget();
        operations.push_back(buffer.getDefiningOp());
      } else if (auto dequantize = dyn_cast<zero::DequantizeOp>(user)) {
        buffer = dequantize.getResult();
      } else if (!isa<zero::OwnPartOp>(user)) {
        continue;
      }
      operations.push_back(user);
    }
    bytes = zero::bytesOf(buffer.getType());
    for (Operation *op : operations)
      seconds += secondsOf(op);
  }

  Operation *front() const { return operations.front(); }
  bool contains(Operation *op) const { return llvm::is_contained(operations, op); }
  /// Must `op` stay before the operations? It makes a value that they take, or changes bytes that they touch.
  bool follows(Operation *op) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return contains(user); }) ||
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return isa<zero::BufferType>(zero::viewedValue(operand).getType()) && touches(objectOf(operand)) &&
                    mutates(op, operand);
           });
  }

private:
  bool touches(MemoryObject object) const {
    return llvm::any_of(operations, [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) { return objectOf(operand) == object; });
    });
  }
  static bool servesAlone(Operation *op) { return op && isa<zero::QuantizeOp, zero::GatherOp>(op) && op->hasOneUse(); }
};

struct PrefetchPass : impl::PrefetchBase<PrefetchPass> {
  using PrefetchBase::PrefetchBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<graph::ProgramOp>()) {
      std::vector<Gathering> gatherings;
      for (auto gather : program.getBlock().getOps<zero::GatherOp>()) {
        Gathering gathering(gather);
        if (!gatherings.empty() && gathering.contains(gatherings.back().operations.back()))
          gatherings.pop_back(); // that was its first hop
        gatherings.push_back(std::move(gathering));
      }
      int64_t window = bytes < 0 ? twoLargest(gatherings) : bytes;
      if (window == 0)
        continue;
      buffers.clear();
      for (const Gathering &gathering : gatherings)
        buffers[gathering.buffer] = gathering.bytes;
      for (auto [index, gathering] : llvm::enumerate(gatherings))
        moveUp(gathering, index == 0 ? nullptr : gatherings[index - 1].operations.back(), window);
    }
  }

  static int64_t twoLargest(ArrayRef<Gathering> gatherings) {
    int64_t first = 0, second = 0;
    for (const Gathering &gathering : gatherings) {
      second = std::max(second, std::min(first, gathering.bytes));
      first = std::max(first, gathering.bytes);
    }
    return first + second;
  }

  /// Up past compute that hides it, not past the gather before it, nor where more than `window` bytes of gathered
  /// buffers would wait for their first use.
  void moveUp(const Gathering &gathering, Operation *previous, int64_t window) {
    double hidden = 0;
    int64_t ahead = gathering.bytes;
    llvm::SmallDenseSet<Value, 4> counted;
    Operation *place = nullptr;
    for (Operation *op = gathering.front()->getPrevNode();
         op && op != previous && !gathering.follows(op) && hidden < gathering.seconds; op = op->getPrevNode()) {
      // Above this op, the buffers of gathers whose first view is here are waiting too.
      if (auto view = dyn_cast<zero::ViewOp>(op))
        if (auto other = buffers.find(view.getBuffer()); other != buffers.end() && counted.insert(other->first).second)
          ahead += other->second;
      if (ahead > window)
        break;
      hidden += secondsOf(op);
      place = op;
    }
    if (!place)
      return;
    for (Operation *op : gathering.operations)
      op->moveBefore(place);
    ++numMoved;
  }

  llvm::DenseMap<Value, int64_t> buffers; ///< what gatherings end in -> bytes
};

} // namespace
} // namespace zc
