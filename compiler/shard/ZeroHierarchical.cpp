//===- ZeroHierarchical.cpp - hpZ: backward gathers inside the node ----------------------===//

#include "compiler/shard/CollectiveTypes.h"
#include "compiler/shard/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace zc {
#define GEN_PASS_DEF_ZEROHIERARCHICAL
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct ZeroHierarchicalPass : impl::ZeroHierarchicalBase<ZeroHierarchicalPass> {
  void runOnOperation() override {
    FailureOr<NodeGrid> found = gridOf(getOperation(), "zero-hierarchical");
    if (failed(found))
      return signalPassFailure();
    grid = *found;
    if (grid.nodes == 1)
      return; // no gather leaves the node
    for (auto program : getOperation().getOps<graph::ProgramOp>())
      if (program.getPhase() == graph::Phase::micro)
        lower(program.getBlock());
  }

  /// The first load of a storage is forward's; the later ones use what it left in the node.
  void lower(Block &block) {
    llvm::MapVector<std::pair<Attribute, int64_t>, SmallVector<zero::LoadOp>> loads;
    for (auto load : block.getOps<zero::LoadOp>())
      if (zero::StorageOp source = load.getSource(); source && gatherOf(load))
        loads[{source.getBucketAttr(), static_cast<int64_t>(source.getOffset())}].push_back(load);
    for (auto &[source, sameBytes] : loads) {
      zero::GatherOp first = gatherOf(sameBytes.front());
      Value secondary;
      for (zero::LoadOp load : ArrayRef(sameBytes).drop_front()) {
        zero::GatherOp later = gatherOf(load);
        if (later.getType() != first.getType() || later.getAxesAttr() != first.getAxesAttr())
          continue;
        if (!secondary)
          secondary = secondaryShard(sameBytes.front(), first);
        reuse(later, secondary);
      }
    }
  }

  /// The gather of a load that leaves the node, or null.
  zero::GatherOp gatherOf(zero::LoadOp load) const {
    for (auto gather : load.getBlock().getOps<zero::GatherOp>())
      if (gather.getAxesAttr() != grid.inside)
        return gather;
    return {};
  }

  /// What a gather between nodes brought is a W-th of the node's part for each rank already; of a gather over all ranks
  /// a part is kept.
  Value secondaryShard(zero::LoadOp load, zero::GatherOp gather) {
    if (gather.getAxesAttr() == grid.between)
      return hopOf(load, gather);
    OpBuilder builder(gather);
    builder.setInsertionPointAfter(gather);
    zero::BufferType part = resized(gather.getType(), gather.getType().getNumElements() / grid.local);
    Value own = builder.create<zero::OwnPartOp>(gather.getLoc(), part, gather.getResult(), grid.inside);
    return load.yielding(own)->getResults().back();
  }

  /// Up to the gather between nodes it becomes a load of its own: its bytes are there for longer.
  static Value hopOf(zero::LoadOp load, zero::GatherOp gather) {
    OpBuilder builder(load);
    auto hop = builder.create<zero::LoadOp>(load.getLoc(), [&](OpBuilder &inside) -> Value {
      Block &to = *inside.getInsertionBlock();
      while (gather->getBlock() != &to)
        load.getBlock().front().moveBefore(&to, to.end());
      return gather.getResult();
    });
    gather.getResult().replaceUsesWithIf(
        hop.getBuffer(), [&](OpOperand &use) { return use.getOwner()->getParentOp() != hop.getOperation(); });
    return hop.getBuffer();
  }

  void reuse(zero::GatherOp later, Value secondary) {
    Value bytes = secondary;
    if (!later.getAxesAttr()) {
      OpBuilder builder(later);
      bytes = builder.create<zero::GatherOp>(later.getLoc(), later.getType(), secondary, grid.inside);
    }
    Operation *shard = later.getShard().getDefiningOp();
    later.getResult().replaceAllUsesWith(bytes);
    later.erase();
    while (shard && shard->use_empty()) { // a quantization for this gather alone
      Operation *input = shard->getNumOperands() > 0 ? shard->getOperand(0).getDefiningOp() : nullptr;
      shard->erase();
      shard = input;
    }
    ++numGathers;
  }

  NodeGrid grid;
};

} // namespace
} // namespace zc
