//===- JoinUpdate.cpp - the update beside backward ----------------------------------------===//
//
// With one micro-step, gradients need not wait for the update program: what they lie in is free as soon as they are
// used. Where an update is told nothing by the other gradients it follows its own (LOMO, arXiv 2306.09782), so that few
// of them exist at a time.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/QueueAssignment.h"
#include "dialects/graph/Graph.h"
#include "dialects/zero/Execution.h"

#include "llvm/ADT/MapVector.h"

namespace zc {
#define GEN_PASS_DEF_JOINUPDATE
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;
using zero::Storage;

namespace {

/// Does anything but compute and the communication of the device's own update take part?
bool leavesDevice(graph::ProgramOp program) {
  WalkResult result = program.walk([](Operation *op) {
    plan::Queue queue = assignedQueue(op);
    return queue != plan::Queue::compute && queue != plan::Queue::comm ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// The storage that `value` is, or is part of; or null.
zero::StorageOp storageOf(Value value) { return zero::viewedValue(value).getDefiningOp<zero::StorageOp>(); }

bool isStorageOf(Value value, Storage what) {
  zero::StorageOp storage = storageOf(value);
  return storage && storage.getWhat() == what;
}

/// The updates of a joined program that are told nothing by other gradients: each is moved to where its bucket is done
/// with in backward, its gradient complete and its parameters read for the last time.
class EarlyUpdates {
public:
  /// `lag`: after an update's gradient so many others are on their way over the ranks before compute waits for it.
  EarlyUpdates(graph::ProgramOp micro, int64_t lag) : block(micro.getBlock()), lag(lag) {}

  /// Before the programs are joined: `update` is the other one.
  void collect(graph::ProgramOp update) {
    if (!collectNorm(update))
      return;
    for (Operation &op : update.getBlock().without_terminator())
      if (FlatSymbolRefAttr bucket = bucketOf(&op))
        buckets[bucket].operations.push_back(&op);
      else
        waitFor(&op);
    findUses();
    buckets.remove_if([](auto &entry) { return !entry.second.isComplete(); });
  }

  /// After it.
  void place() {
    if (buckets.empty())
      return;
    SmallVector<Bucket *> landing; // in the order in which gradients are complete
    for (auto &[name, bucket] : buckets)
      landing.push_back(&bucket);
    llvm::sort(landing, [](const Bucket *a, const Bucket *b) { return a->reduced.position < b->reduced.position; });
    DenseMap<Operation *, Operation *> behind; // an operation -> the last that was moved behind it
    for (auto [index, bucket] : llvm::enumerate(landing)) {
      Place at = std::max(bucket->reduced, bucket->read);
      if (assignedQueue(bucket->reduced.op) == plan::Queue::comm)
        at = std::max(at, landing[std::min(index + static_cast<size_t>(lag), landing.size() - 1)]->reduced);
      Operation *&last = behind.try_emplace(at.op, at.op).first->second;
      for (Operation *op : bucket->operations)
        last = moveBehind(op, isGather(op, Storage::gradients) ? bucket->reduced.op : last, last);
    }
    relinkNorm();
    releaseFromNorm(landing);
  }

private:
  struct Place {
    int64_t position = -1;
    Operation *op = nullptr;
    bool operator<(const Place &other) const { return position < other.position; }
  };
  struct Bucket {
    SmallVector<Operation *> operations; ///< of the update
    Place reduced, read;                 ///< the last use of gradients, of parameters, by the micro-step
    bool waits = false;                  ///< for something else of the update program
    bool isUpdated() const {
      return llvm::any_of(operations, [](Operation *op) { return isa<zero::UpdateOp>(op); });
    }
    bool isComplete() const { return reduced.op && isUpdated() && !waits; }
  };

  /// False where updates depend on the norm, or it is one of gradients on other tiers too.
  bool collectNorm(graph::ProgramOp update) {
    for (auto clip : update.getOps<zero::ClipFactorOp>())
      if (clip.getMaxNormAttr() || clip.getWeight() || clip.getScaled())
        return false;
    for (auto partial : update.getOps<zero::NormPartialOp>()) {
      Value before = norm.empty() ? Value() : norm.back().getResult();
      if (partial.getPrevious() != before || !isStorageOf(partial.getGradient(), Storage::gradients))
        return false;
      norm.push_back(partial);
    }
    return true;
  }

  /// `op` is not moved: a bucket stays behind it, too, whose storage it uses before the update (hops of a gather).
  void waitFor(Operation *op) {
    op->walk([&](Operation *part) {
      for (Value operand : part->getOperands())
        if (zero::StorageOp storage = storageOf(operand))
          if (Bucket &bucket = buckets[storage.getBucketAttr()]; !bucket.isUpdated())
            bucket.waits = true;
    });
  }

  static bool isGather(Operation *op, Storage what) {
    auto gather = dyn_cast<zero::AllGatherOp>(op);
    return gather && isStorageOf(gather.getWhole(), what);
  }

  /// The bucket that `op` does a part of the update of, on the device; or null.
  static FlatSymbolRefAttr bucketOf(Operation *op) {
    Value value;
    if (auto gather = dyn_cast<zero::AllGatherOp>(op))
      value = gather.getWhole();
    else if (auto partial = dyn_cast<zero::NormPartialOp>(op))
      value = partial.getGradient();
    else if (auto update = dyn_cast<zero::UpdateOp>(op))
      value = update.getGradient();
    bool isHere = value && zero::tierOf(value.getType()) == zero::Tier::device &&
                  llvm::all_of(op->getOperands(), [](Value operand) {
                    return isa_and_nonnull<zero::NormPartialOp, zero::ClipFactorOp>(operand.getDefiningOp()) ||
                           storageOf(operand);
                  });
    return isHere ? storageOf(value).getBucketAttr() : FlatSymbolRefAttr();
  }

  /// Where the micro-step uses gradients and parameters last.
  void findUses() {
    for (auto [position, top] : llvm::enumerate(block)) {
      Place here{static_cast<int64_t>(position), &top};
      top.walk([&](Operation *op) {
        for (Value operand : zero::isView(op) ? ValueRange() : ValueRange(op->getOperands()))
          if (zero::StorageOp storage = storageOf(operand))
            if (auto found = buckets.find(storage.getBucketAttr()); found != buckets.end()) {
              if (storage.getWhat() == Storage::gradients)
                found->second.reduced = here;
              else if (storage.getWhat() == Storage::parameters)
                found->second.read = here;
            }
      });
    }
  }

  /// Behind `before`, which is `last` or stands before it, with the addresses that it uses; what is the last then.
  Operation *moveBehind(Operation *op, Operation *before, Operation *last) {
    const bool isLast = before == last;
    for (Value operand : op->getOperands())
      if (auto part = operand.getDefiningOp<zero::PartOp>())
        part->moveAfter(before), before = part;
    op->moveAfter(before);
    return isLast ? op : last; // asking the block for the order would have it count all operations again
  }

  /// The sum is exact: it is that of any order.
  void relinkNorm() {
    if (norm.empty())
      return;
    Value total = norm.back().getResult();
    SmallVector<OpOperand *> users;
    for (OpOperand &use : total.getUses())
      users.push_back(&use);
    llvm::sort(norm, [](zero::NormPartialOp a, zero::NormPartialOp b) { return a->isBeforeInBlock(b); });
    norm.front().getPreviousMutable().clear();
    for (size_t i = 1; i < norm.size(); ++i)
      norm[i].getPreviousMutable().assign(norm[i - 1].getResult());
    for (OpOperand *use : users)
      if (!isa<zero::NormPartialOp>(use->getOwner()))
        use->set(norm.back().getResult());
  }

  /// With no bound, weight or scale the clipping factor is 1 whatever the norm.
  void releaseFromNorm(ArrayRef<Bucket *> landing) {
    zero::FillOp one;
    for (Bucket *bucket : landing)
      for (Operation *op : bucket->operations) {
        auto update = dyn_cast<zero::UpdateOp>(op);
        auto clip = update ? update.getFactor().getDefiningOp<zero::ClipFactorOp>() : zero::ClipFactorOp();
        if (!clip)
          continue;
        if (!one) {
          OpBuilder builder(&block, block.begin());
          one = builder.create<zero::FillOp>(clip.getLoc(), cast<zero::BufferType>(update.getFactor().getType()),
                                             builder.getF64FloatAttr(1.0));
          assign(one, plan::Queue::compute, assignedSeconds(clip));
        }
        update.getFactorMutable().assign(one.getResult());
      }
  }

  Block &block;
  const int64_t lag;
  SmallVector<zero::NormPartialOp> norm;      ///< each is added to the one before
  llvm::MapVector<Attribute, Bucket> buckets; ///< by name
};

struct JoinUpdatePass : StagePass<impl::JoinUpdateBase<JoinUpdatePass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    const zero::Execution execution = zero::executionOf(getOperation());
    if (zero::microExecutionsOf(getOperation()) > 1 || execution.delayAfter)
      return;
    graph::ProgramOp micro = graph::programOf(getOperation(), graph::Phase::micro),
                     update = graph::programOf(getOperation(), graph::Phase::update);
    if (!micro || !update)
      return;
    const bool leaves = leavesDevice(update);
    // Staging beside activations takes memory; sums over micro-steps outlive each of them.
    if (leaves ? options.overlap == Overlap::none : execution.accumulation > 1)
      return;
    const bool isSummed = zero::meshOf(getOperation()).dataDegree() > 1;
    EarlyUpdates early(micro, isSummed ? static_cast<int64_t>(options.overlap) : 0);
    if (execution.accumulation == 1)
      early.collect(update);
    Operation *end = micro.getBlock().getTerminator();
    for (Operation &op : llvm::make_early_inc_range(update.getBlock().without_terminator()))
      if (isa<zero::StorageOp>(op))
        op.moveBefore(&micro.getBlock(), micro.getBlock().begin());
      else
        op.moveBefore(end);
    early.place();
  }
};

} // namespace

std::unique_ptr<Pass> createJoinUpdate(const ScheduleOptions &options) {
  return std::make_unique<JoinUpdatePass>(options);
}

} // namespace zc
