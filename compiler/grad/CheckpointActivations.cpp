//===- CheckpointActivations.cpp - keep block inputs, recompute the rest ------===//
//
// Where a block begins is read off the graph, not off names (Cuts.h): the smallest period of the operations between the
// cuts is one block.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Cuts.h"
#include "compiler/grad/Passes.h"
#include "compiler/grad/Recompute.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_CHECKPOINTACTIVATIONS
#include "compiler/grad/Passes.h.inc"

namespace {

/// Operations [begin, end) of the forward, recomputed together.
struct Segment {
  size_t begin, end;
};

class Checkpointer {
public:
  explicit Checkpointer(ProgramOp program) {
    for (Operation &op : program.getBlock()) {
      indices[&op] = operations.size();
      operations.push_back(&op);
    }
    Operation *border = program.getBackward();
    numForward = border ? indices[border] : operations.size();
  }

  /// Number of operations cloned into the backward.
  size_t run() {
    size_t recomputed = 0;
    for (Segment segment : blocks(streamCuts(operations, 0, numForward)))
      recomputed += recompute(segment);
    return recomputed;
  }

private:
  bool isForward(Operation *op) const { return indices.lookup(op) < numForward; }

  /// Segments of one block each: `cuts` joined by the smallest period of the operations between them.
  std::vector<Segment> blocks(const std::vector<size_t> &cuts) {
    llvm::StringMap<unsigned> numbers;
    std::vector<unsigned> signatures;
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      signatures.push_back(numbers.try_emplace(signature(cuts[i], cuts[i + 1]), numbers.size()).first->second);
    size_t period = smallestPeriod(signatures);
    std::vector<Segment> segments;
    for (size_t i = 0; i + 1 < cuts.size(); i += period)
      segments.push_back({cuts[i], cuts[std::min(i + period, cuts.size() - 1)]});
    return segments;
  }

  /// Smallest k at which most signatures equal the one k further on (ends of a model differ from its middle); 1 if none
  /// does: a block has some cuts.
  static size_t smallestPeriod(const std::vector<unsigned> &signatures) {
    constexpr size_t kMost = 1024;
    for (size_t k = 1; k <= std::min(kMost, signatures.size() / 2); ++k) {
      size_t same = 0, pairs = signatures.size() - k;
      for (size_t i = 0; i < pairs; ++i)
        same += signatures[i] == signatures[i + k];
      if (3 * same > 2 * pairs)
        return k;
    }
    return 1;
  }

  std::string signature(size_t begin, size_t end) {
    std::string text;
    for (size_t i = begin; i < end; ++i)
      if (!isFreeToRecompute(operations[i]) && !isView(operations[i]))
        (text += operations[i]->getName().getStringRef()) += ' ';
    return text;
  }

  /// Backward uses of the segment's values that do not cross its end are fed by clones of the operations that make
  /// them.
  size_t recompute(Segment segment) {
    SmallVector<OpOperand *> uses;
    Operation *first = nullptr;
    for (size_t i = segment.begin; i < segment.end; ++i) {
      if (isFreeToRecompute(operations[i]))
        continue;
      for (Value result : operations[i]->getResults()) {
        if (isKept(result, segment))
          continue;
        for (OpOperand &use : result.getUses())
          if (Operation *user = use.getOwner(); !isForward(user)) {
            uses.push_back(&use);
            first = !first || user->isBeforeInBlock(first) ? user : first;
          }
      }
    }
    if (!first)
      return 0;
    llvm::SetVector<Operation *> needed;
    for (OpOperand *use : uses)
      collect(use->get().getDefiningOp(), segment, needed);
    std::vector<Operation *> ordered(needed.begin(), needed.end());
    llvm::sort(ordered, [&](Operation *a, Operation *b) { return indices[a] < indices[b]; });
    OpBuilder builder(first);
    IRMapping map;
    for (Operation *op : ordered)
      builder.clone(*op, map);
    for (OpOperand *use : uses)
      use->set(map.lookup(use->get()));
    return ordered.size();
  }

  /// A checkpoint: still needed by the forward behind the segment.
  bool isKept(Value value, Segment segment) { return lastUse(viewedValue(value), indices, numForward) >= segment.end; }

  void collect(Operation *op, Segment segment, llvm::SetVector<Operation *> &needed) {
    SmallVector<Operation *> work{op};
    while (!work.empty()) {
      Operation *next = work.pop_back_val();
      size_t index = indices[next];
      if (index < segment.begin || index >= segment.end || !needed.insert(next))
        continue;
      for (Value operand : next->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          if (isFreeToRecompute(maker) || !isKept(operand, segment))
            work.push_back(maker);
    }
  }

  std::vector<Operation *> operations;
  DenseMap<Operation *, size_t> indices;
  size_t numForward = 0;
};

struct CheckpointActivationsPass : StagePass<impl::CheckpointActivationsBase<CheckpointActivationsPass>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.checkpoint == CheckpointPolicy::none)
      return;
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() == Phase::micro)
        recomputed += options.checkpoint == CheckpointPolicy::block ? Checkpointer(program).run()
                                                                    : recomputeSelectively(program, options.save);
  }
};

} // namespace

std::unique_ptr<Pass> createCheckpointActivations(const GradStage &options) {
  return std::make_unique<CheckpointActivationsPass>(options);
}

} // namespace zc
