//===- ZeroHierarchical.cpp - hpZ: backward gathers inside the node ----------------------===//

#include "compiler/shard/Passes.h"
#include "compiler/shard/Pieces.h"

#include "llvm/ADT/MapVector.h"

namespace zc {
#define GEN_PASS_DEF_ZEROHIERARCHICAL
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// What was copied into a temporary buffer, or null.
Value fetchedFrom(zero::AllocOp buffer) {
  for (Operation *user : buffer->getUsers())
    if (auto fetch = dyn_cast<zero::FetchOp>(user); fetch && fetch.getTarget() == buffer.getResult())
      return fetch.getSource();
  return {};
}

/// The storage that `value` was quantized or copied from, or null.
zero::StorageOp originOf(Value value) {
  while (value) {
    Operation *op = value.getDefiningOp();
    if (auto quantize = dyn_cast_or_null<zero::QuantizeOp>(op))
      value = quantize.getInput();
    else if (auto buffer = dyn_cast_or_null<zero::AllocOp>(op))
      value = fetchedFrom(buffer);
    else
      return dyn_cast_or_null<zero::StorageOp>(op);
  }
  return {};
}

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

  /// The first gather of a storage that leaves the node is forward's; the later ones use what it left in the node.
  void lower(Block &block) {
    llvm::MapVector<std::pair<Attribute, int64_t>, SmallVector<zero::GatherOp>> gathers;
    for (auto gather : block.getOps<zero::GatherOp>())
      if (zero::StorageOp origin = originOf(gather.getShard()); origin && gather.getAxesAttr() != grid.inside)
        gathers[{origin.getBucketAttr(), static_cast<int64_t>(origin.getOffset())}].push_back(gather);
    for (auto &[origin, sameBytes] : gathers) {
      zero::GatherOp first = sameBytes.front();
      Value secondary;
      for (zero::GatherOp later : ArrayRef(sameBytes).drop_front()) {
        if (later.getType() != first.getType() || later.getAxesAttr() != first.getAxesAttr())
          continue;
        if (!secondary)
          secondary = secondaryShard(first);
        reuse(later, secondary);
      }
    }
  }

  /// What a gather between nodes brought is a W-th of the node's part for each rank already; of a gather over all ranks
  /// a part is kept.
  Value secondaryShard(zero::GatherOp gather) {
    if (gather.getAxesAttr() == grid.between)
      return gather.getResult();
    OpBuilder builder(gather);
    builder.setInsertionPointAfter(gather);
    zero::BufferType part = resized(gather.getType(), gather.getType().getNumElements() / grid.local);
    return builder.create<zero::OwnPartOp>(gather.getLoc(), part, gather.getResult(), grid.inside);
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
