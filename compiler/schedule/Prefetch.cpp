//===- Prefetch.cpp - load ahead of use ------------------------------------------------===//

#include "compiler/schedule/Assigned.h"
#include "compiler/schedule/MemoryUse.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/TwoLargest.h"
#include "dialects/zero/Zero.h"

#include <map>

namespace zc {
#define GEN_PASS_DEF_PREFETCH
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// What brings one buffer to the device just before its first use: fetches from other tiers, a gather and what only
/// serves it: quantization and an earlier hop before it, dequantization, a part that is kept and reordering after it.
/// They move together.
struct Load {
  SmallVector<Operation *> operations; ///< in program order
  Value buffer;                        ///< what views look into
  int64_t bytes = 0;                   ///< of it
  double seconds = 0;

  explicit Load(zero::GatherOp gather) : buffer(gather.getResult()) {
    for (Operation *op = gather.getShard().getDefiningOp(); servesAlone(op); op = op->getOperand(0).getDefiningOp())
      operations.insert(operations.begin(), op);
    operations.push_back(gather);
    if (auto alloc = operations.front()->getOperand(0).getDefiningOp<zero::AllocOp>()) {
      SmallVector<Operation *> fetches = fetchesInto(alloc);
      operations.insert(operations.begin(), fetches.begin(), fetches.end());
    }
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
    measure();
  }

  /// A buffer that is used as it was fetched; no operations if nothing is fetched into it.
  explicit Load(zero::AllocOp alloc) : operations(fetchesInto(alloc)), buffer(alloc) { measure(); }

  Operation *front() const { return operations.front(); }
  bool isFetched() const { return llvm::any_of(operations, llvm::IsaPred<zero::FetchOp>); }
  bool contains(Operation *op) const { return llvm::is_contained(operations, op); }
  /// Must `op` stay before the operations? It makes a value that they take, changes bytes that they touch, or touches
  /// bytes that they change.
  bool follows(Operation *op) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return contains(user); }) ||
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return isa<zero::BufferType>(zero::viewedValue(operand).getType()) && touches(objectOf(operand)) &&
                    (mutates(op, operand) || changes(objectOf(operand)));
           });
  }

private:
  /// The buffer and the operations behind it that fill it, on the way from any tier.
  static SmallVector<Operation *> fetchesInto(zero::AllocOp alloc) {
    SmallVector<Operation *> operations{alloc};
    bool fetched = false;
    for (Operation *op = alloc->getNextNode(); isa<zero::AllocOp, zero::PartOp, zero::FetchOp>(op);
         op = op->getNextNode()) {
      if (isa<zero::AllocOp>(op) && zero::tierOf(op->getResult(0).getType()) == zero::Tier::device)
        break; // the next load
      fetched |= isa<zero::FetchOp>(op);
      operations.push_back(op);
    }
    return fetched ? operations : SmallVector<Operation *>();
  }

  void measure() {
    bytes = zero::bytesOf(buffer.getType());
    std::map<plan::Queue, double> links; // each works beside the others
    for (Operation *op : operations)
      seconds = std::max(seconds, links[assignedQueue(op)] += assignedSeconds(op));
  }

  bool changes(MemoryObject object) const {
    return llvm::any_of(operations, [&](Operation *op) {
      return llvm::any_of(op->getOperands(),
                          [&](Value operand) { return objectOf(operand) == object && mutates(op, operand); });
    });
  }
  bool touches(MemoryObject object) const {
    return llvm::any_of(operations, [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) { return objectOf(operand) == object; });
    });
  }
  static bool servesAlone(Operation *op) { return op && isa<zero::QuantizeOp, zero::GatherOp>(op) && op->hasOneUse(); }
};

struct PrefetchPass : StagePass<impl::PrefetchBase<PrefetchPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<graph::ProgramOp>()) {
      if (program.getPhase() != graph::Phase::micro)
        continue;
      std::vector<Load> loads = loadsOf(program.getBlock());
      int64_t window = options.prefetch < 0 ? twoLargest(llvm::map_range(
                                                  loads, [](const Load &load) { return load.bytes; }))
                                            : options.prefetch;
      if (window == 0)
        continue;
      buffers.clear();
      for (const Load &load : loads)
        buffers[load.buffer] = load.bytes;
      for (auto [index, load] : llvm::enumerate(loads))
        moveUp(load, index == 0 ? nullptr : loads[index - 1].operations.back(), window);
    }
  }

  static std::vector<Load> loadsOf(Block &block) {
    std::vector<Load> loads;
    auto add = [&](Load load) {
      if (load.operations.empty())
        return;
      if (!loads.empty() && load.contains(loads.back().operations.back()))
        loads.pop_back(); // that was its first hop, or what is gathered
      loads.push_back(std::move(load));
    };
    for (Operation &op : block) {
      if (auto gather = dyn_cast<zero::GatherOp>(op))
        add(Load(gather));
      else if (auto alloc = dyn_cast<zero::AllocOp>(op); alloc && zero::tierOf(alloc.getType()) == zero::Tier::device)
        add(Load(alloc));
    }
    return loads;
  }

  /// Up past compute that hides it, and from another tier, whose link may be slower than expected, past the first use
  /// of another load at least. Not past the load before it, nor where more than `window` bytes would wait on the device
  /// for their first use.
  void moveUp(const Load &load, Operation *previous, int64_t window) {
    double hidden = 0;
    int64_t ahead = load.bytes;
    llvm::SmallDenseSet<Value, 4> counted;
    Operation *place = nullptr;
    const size_t uses = options.overlap == Overlap::slower && load.isFetched() ? 1 : 0; // passed whatever the link
    for (Operation *op = load.front()->getPrevNode();
         op && op != previous && !load.follows(op) && (hidden < load.seconds || counted.size() < uses);
         op = op->getPrevNode()) {
      // Above this op, loads whose first view is here are waiting too.
      if (auto view = dyn_cast<zero::ViewOp>(op))
        if (auto other = buffers.find(view.getBuffer()); other != buffers.end() && counted.insert(other->first).second)
          ahead += other->second;
      if (ahead > window)
        break;
      if (assignedQueue(op) == plan::Queue::compute)
        hidden += assignedSeconds(op);
      place = op;
    }
    if (!place)
      return;
    for (Operation *op : load.operations)
      op->moveBefore(place);
    ++numMoved;
  }

  llvm::DenseMap<Value, int64_t> buffers; ///< what loads end in -> bytes
};

} // namespace

std::unique_ptr<Pass> createPrefetch(const ScheduleOptions &options) { return std::make_unique<PrefetchPass>(options); }

} // namespace zc
