//===- ZeroHierarchicalCollectives.cpp - along one axis of the mesh after the other ----------===//

#include "compiler/shard/CollectiveTypes.h"
#include "compiler/shard/Passes.h"

namespace zc {
#define GEN_PASS_DEF_ZEROHIERARCHICALCOLLECTIVES
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct ZeroHierarchicalCollectivesPass : impl::ZeroHierarchicalCollectivesBase<ZeroHierarchicalCollectivesPass> {
  void runOnOperation() override {
    FailureOr<NodeGrid> found = gridOf(getOperation(), "zero-hierarchical-collectives");
    if (failed(found))
      return signalPassFailure();
    grid = *found;
    if (grid.nodes == 1 || grid.local == 1)
      return; // there is only one axis
    SmallVector<Operation *> collectives;
    getOperation().walk([&](Operation *op) {
      if (isa<zero::GatherOp, zero::AllGatherOp, zero::ReduceScatterOp>(op))
        collectives.push_back(op);
    });
    for (Operation *op : collectives) {
      if (auto gather = dyn_cast<zero::GatherOp>(op); gather && !gather.getAxesAttr())
        lower(gather);
      else if (auto gather = dyn_cast<zero::AllGatherOp>(op))
        lower(gather);
      else if (auto reduce = dyn_cast<zero::ReduceScatterOp>(op); reduce && !reduce.getAxesAttr())
        lower(reduce);
    }
  }

  /// Between nodes first, so that each byte enters a node once; then inside. Pieces arrive ordered by local index, then
  /// by node.
  Value gatherByAxes(OpBuilder &builder, Location loc, Value own, zero::BufferType whole) {
    zero::BufferType column = resized(whole, whole.getNumElements() / grid.local);
    Value between = builder.create<zero::GatherOp>(loc, column, own, grid.between);
    ++numCollectives;
    return builder.create<zero::GatherOp>(loc, whole, between, grid.inside);
  }

  void lower(zero::GatherOp gather) {
    OpBuilder builder(gather);
    Value pieces = gatherByAxes(builder, gather.getLoc(), gather.getShard(), gather.getType());
    // Whoever dequantizes puts pieces in their places anyway.
    for (Operation *user : llvm::make_early_inc_range(gather->getUsers()))
      if (auto dequantize = dyn_cast<zero::DequantizeOp>(user)) {
        dequantize.setRows(static_cast<uint64_t>(grid.nodes));
        dequantize.setColumns(static_cast<uint64_t>(grid.local));
        dequantize.getInputMutable().assign(pieces);
      }
    if (!gather->use_empty()) {
      Value whole = builder.create<zero::AllocOp>(gather.getLoc(), gather.getType());
      builder.create<zero::ReorderOp>(gather.getLoc(), pieces, whole, grid.local, grid.nodes);
      gather.getResult().replaceAllUsesWith(whole);
    }
    gather.erase();
  }

  void lower(zero::AllGatherOp gather) {
    OpBuilder builder(gather);
    Value pieces = gatherByAxes(builder, gather.getLoc(), gather.getOwn(), gather.getWhole().getType());
    builder.create<zero::ReorderOp>(gather.getLoc(), pieces, gather.getWhole(), grid.local, grid.nodes);
    gather.erase();
  }

  /// Inside the node first, so that what leaves it is already summed there.
  void lower(zero::ReduceScatterOp reduce) {
    OpBuilder builder(reduce);
    Location loc = reduce.getLoc();
    zero::BufferType whole = reduce.getBuffer().getType();
    Value ordered = builder.create<zero::AllocOp>(loc, whole);
    builder.create<zero::ReorderOp>(loc, reduce.getBuffer(), ordered, grid.nodes, grid.local);
    Value sums = builder.create<zero::AllocOp>(loc, resized(whole, whole.getNumElements() / grid.local));
    builder.create<zero::ReduceScatterOp>(loc, ordered, sums, APFloat(1.0), false, grid.inside);
    builder.create<zero::ReduceScatterOp>(loc, sums, reduce.getShard(), reduce.getScale(), reduce.getAccumulate(),
                                          grid.between);
    reduce.erase();
    ++numCollectives;
  }

  NodeGrid grid;
};

} // namespace
} // namespace zc
