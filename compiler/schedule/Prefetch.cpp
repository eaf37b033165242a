//===- Prefetch.cpp - load ahead of use ------------------------------------------------===//

#include "compiler/schedule/MemoryUse.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/QueueAssignment.h"
#include "compiler/schedule/TwoLargest.h"
#include "dialects/zero/Zero.h"

#include <map>

namespace zc {
#define GEN_PASS_DEF_PREFETCH
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// What has to be known of a load to move it.
struct Load {
  zero::LoadOp op;
  int64_t bytes = 0; ///< of the buffer
  double seconds = 0;
  bool isFetched = false; ///< from another tier
  llvm::DenseSet<MemoryObject> touched, changed;
  Makers *makers; ///< of all loads: nothing but places changes while these are looked at

  Load(zero::LoadOp op, Makers &makers) : op(op), bytes(zero::bytesOf(op.getBuffer().getType())), makers(&makers) {
    std::map<plan::Queue, double> links; // each works beside the others
    for (Operation &part : op.getBlock().without_terminator()) {
      seconds = std::max(seconds, links[assignedQueue(&part)] += assignedSeconds(&part));
      isFetched |= isa<zero::FetchOp>(part);
      for (Value operand : part.getOperands()) {
        touched.insert(makers.objectOf(operand));
        if (mutates(&part, operand))
          changed.insert(makers.objectOf(operand));
      }
    }
  }

  /// Must `other` stay before the load? It makes a value that it takes, changes bytes that it touches, or touches bytes
  /// that it changes.
  bool follows(Operation *other) const {
    return llvm::any_of(other->getUsers(), [&](Operation *user) { return op->isAncestor(user); }) ||
           llvm::any_of(other->getOperands(), [&](Value operand) {
             return isa<zero::BufferType>(zero::viewedValue(operand).getType()) &&
                    touched.contains(makers->objectOf(operand)) &&
                    (mutates(other, operand) || changed.contains(makers->objectOf(operand)));
           });
  }
};

struct PrefetchPass : StagePass<impl::PrefetchBase<PrefetchPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<graph::ProgramOp>()) {
      if (program.getPhase() != graph::Phase::update)
        prefetch(program.getBlock());
      for (auto load : llvm::make_early_inc_range(program.getOps<zero::LoadOp>()))
        putInPlace(load);
    }
  }

  void prefetch(Block &block) {
    Makers makers;
    std::vector<Load> loads;
    for (auto load : block.getOps<zero::LoadOp>())
      loads.emplace_back(load, makers);
    int64_t window = options.prefetch < 0 ? twoLargest(llvm::map_range(
                                                loads, [](const Load &load) { return load.bytes; }))
                                          : options.prefetch;
    if (window == 0)
      return;
    for (auto [index, load] : llvm::enumerate(loads))
      moveUp(load, index == 0 ? nullptr : loads[index - 1].op.getOperation(), window);
  }

  /// From here on there are only its parts.
  static void putInPlace(zero::LoadOp load) {
    for (Operation &part : llvm::make_early_inc_range(load.getBlock().without_terminator()))
      part.moveBefore(load);
    load->replaceAllUsesWith(load.getYield()->getOperands());
    load.erase();
  }

  /// Up past compute that hides it, and from another tier, whose link may be slower than expected, past the first use
  /// of another load at least. Not past the load before it, nor where more than `window` bytes would wait on the device
  /// for their first use.
  void moveUp(const Load &load, Operation *previous, int64_t window) {
    double hidden = 0;
    int64_t ahead = load.bytes;
    llvm::SmallDenseSet<Value, 4> counted;
    Operation *place = nullptr;
    const size_t uses = options.overlap == Overlap::slower && load.isFetched ? 1 : 0; // passed whatever the link
    for (Operation *op = load.op->getPrevNode();
         op && op != previous && !load.follows(op) && (hidden < load.seconds || counted.size() < uses);
         op = op->getPrevNode()) {
      // Above this op, loads whose first view is here are waiting too.
      if (auto view = dyn_cast<zero::ViewOp>(op))
        if (view.getBuffer().getDefiningOp<zero::LoadOp>() && counted.insert(view.getBuffer()).second)
          ahead += zero::bytesOf(view.getBuffer().getType());
      if (ahead > window)
        break;
      if (assignedQueue(op) == plan::Queue::compute)
        hidden += assignedSeconds(op);
      place = op;
    }
    if (!place)
      return;
    load.op->moveBefore(place);
    ++numMoved;
  }
};

} // namespace

std::unique_ptr<Pass> createPrefetch(const ScheduleOptions &options) { return std::make_unique<PrefetchPass>(options); }

} // namespace zc
