//===- ZeroPartitionActivations.cpp - Pa: what recomputation begins with, over the model axis ---===//
//
// What backward computes again it computes from values that are kept. Those that all ranks of the model axis have
// whole are kept in parts, and gathered before the first operation that reads them again.
//
//===----------------------------------------------------------------------===//

#include "compiler/grad/WholeValues.h"
#include "compiler/shard/Passes.h"
#include "compiler/shard/Views.h"

#include <map>

namespace zc {
#define GEN_PASS_DEF_ZEROPARTITIONACTIVATIONS
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// Smaller values stay whole: a gather has a latency.
constexpr int64_t kSmallestKept = 4096;

/// Operations of backward that forward has as well. Of a step in which nothing else is computed twice (CSE), that is
/// what is recomputed: the same operation on the same values, or on what is recomputed.
class Recomputed {
public:
  Recomputed(Block &block, Operation *border) {
    for (BlockArgument argument : block.getArguments())
      numbers[argument] = numbers.size();
    bool isBackward = false;
    for (Operation &op : block) {
      isBackward |= &op == border;
      bool isKnown = number(&op);
      if (isBackward && isKnown)
        operations.insert(&op);
    }
  }

  bool contains(Operation *op) const { return operations.contains(op); }

private:
  /// Gives results their numbers; true if they are those of an operation before.
  bool number(Operation *op) {
    std::vector<uintptr_t> key{reinterpret_cast<uintptr_t>(op->getName().getAsOpaquePointer()),
                               reinterpret_cast<uintptr_t>(op->getAttrDictionary().getAsOpaquePointer())};
    for (Value operand : op->getOperands())
      key.push_back(numbers.lookup(operand));
    for (Type type : op->getResultTypes())
      key.push_back(reinterpret_cast<uintptr_t>(type.getAsOpaquePointer()));
    auto [known, isNew] = firsts.insert({std::move(key), next});
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      numbers[result] = known->second + i;
    next += isNew ? op->getNumResults() : 0;
    return !isNew;
  }

  uintptr_t next = 1u << 20; ///< inputs are below
  DenseMap<Value, uintptr_t> numbers;
  std::map<std::vector<uintptr_t>, uintptr_t> firsts;
  llvm::DenseSet<Operation *> operations;
};

struct ZeroPartitionActivationsPass
    : StagePass<impl::ZeroPartitionActivationsBase<ZeroPartitionActivationsPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    graph::ProgramOp program = graph::programOf(getOperation(), graph::Phase::micro);
    Operation *border = program ? program.getBackward() : nullptr;
    if (!border || options.model < 2)
      return;
    Block &block = program.getBlock();
    const llvm::DenseSet<Value> whole = wholeValues(program);
    const Recomputed recomputed(block, border);
    SmallVector<Value> kept;
    for (Operation &op : llvm::make_range(block.begin(), border->getIterator()))
      if (!graph::isFreeToRecompute(&op) && !graph::isView(&op))
        llvm::copy_if(op.getResults(), std::back_inserter(kept),
                      [&](Value value) { return whole.contains(value) && isa<RankedTensorType>(value.getType()); });
    const auto cut = llvm::count_if(kept, [&](Value value) { return partition(value, recomputed, border); });
    numCut += static_cast<unsigned>(cut);
    // Views of what is no longer kept would keep it.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (graph::isView(&op) && op.use_empty())
        op.erase();
    if (cut == 0)
      getOperation().emitWarning("nothing that all ranks of --tensor-parallel have whole is kept for recomputation: "
                                 "--partition-activations changes nothing");
  }

  /// False where the value stays whole.
  bool partition(Value value, const Recomputed &recomputed, Operation *border) {
    auto type = cast<RankedTensorType>(value.getType());
    if (graph::bytesOf(type) < kSmallestKept || type.getNumElements() % options.model != 0)
      return false;
    HalvesUses uses(value, border);
    if (llvm::none_of(uses.backward, [&](OpOperand *use) { return recomputed.contains(use->getOwner()); }))
      return false;
    Location location = value.getLoc();
    const int64_t runs[] = {options.model, type.getNumElements() / options.model};
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfter(uses.lastForward);
    Value flat = builder.create<graph::ReshapeOp>(location, value, ArrayRef<int64_t>(runs));
    Value part = builder.create<graph::AllSliceOp>(location, flat, 0, options.model);
    builder.setInsertionPoint(uses.firstBackward());
    Value all = builder.create<graph::AllGatherOp>(location, part, 0, options.model);
    uses.readInstead(builder, value, builder.create<graph::ReshapeOp>(location, all, type.getShape()));
    return true;
  }
};

} // namespace

std::unique_ptr<Pass> createZeroPartitionActivations(const ShardOptions &options) {
  return std::make_unique<ZeroPartitionActivationsPass>(options);
}

} // namespace zc
