//===- ZeroDelayUpdate.cpp - parameters follow the update a step later ----------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Execution.h"

namespace zc {
#define GEN_PASS_DEF_ZERODELAYUPDATE
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct ZeroDelayUpdatePass : StagePass<impl::ZeroDelayUpdateBase<ZeroDelayUpdatePass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    mesh = zero::meshOf(module);
    SmallVector<zero::UpdateOp> updates;
    module.walk([&](zero::UpdateOp update) { updates.push_back(update); });
    zero::Execution execution = zero::executionOf(module);
    auto isOfStorage = [](zero::UpdateOp update) {
      return storageOf(update.getWeights()) && (!update.getCopy() || storageOf(update.getCopy()));
    };
    if (updates.empty() || execution.delayAfter || !llvm::all_of(updates, isOfStorage)) {
      module.emitError("zero-delay-update needs the updates that zero-partition leaves, once");
      return signalPassFailure();
    }
    Block &block = *updates.front()->getBlock();
    OpBuilder builder(&block, block.begin());
    execution.delayAfter = options.delayAfter;
    zero::setExecution(module, execution);
    SymbolTable symbols(module);
    // Backward is through with the last bucket's parameters first, and takes the buffers of its gradients back first.
    std::reverse(updates.begin(), updates.end());
    for (zero::UpdateOp update : updates)
      delay(builder, update, symbols.lookup<zero::BucketOp>(storageOf(update.getWeights()).getBucket()));
    moveGathers(block, builder);
    for (zero::UpdateOp update : updates)
      update->moveBefore(block.getTerminator());
    numDelayed = updates.size();
  }

private:
  static zero::StorageOp storageOf(Value value) { return value.getDefiningOp<zero::StorageOp>(); }

  /// Weights of the step before to the parameters, at `builder`; the update has weights of its own.
  void delay(OpBuilder &builder, zero::UpdateOp update, zero::BucketOp bucket) {
    bucket.setDelayed(true);
    auto own = [&](OpBuilder &at, zero::Storage what) {
      return zero::createStorage(at, update.getLoc(), bucket, what, mesh, bucket.getOptimizerSharded());
    };
    Value published = own(builder, zero::Storage::master);
    builder.create<zero::PublishOp>(update.getLoc(), published, own(builder, zero::Storage::parameters));
    OpBuilder before(update);
    Value replaced[] = {update.getWeights(), update.getCopy()};
    update.getWeightsMutable().assign(own(before, zero::Storage::master));
    update.getCopyMutable().clear();
    for (Value storage : replaced)
      if (storage && storage.use_empty())
        storage.getDefiningOp()->erase();
  }

  /// Gathers of parameters follow what is published.
  static void moveGathers(Block &block, OpBuilder &builder) {
    SmallVector<zero::AllGatherOp> gathers(block.getOps<zero::AllGatherOp>());
    for (zero::AllGatherOp gather : llvm::reverse(gathers)) {
      if (storageOf(gather.getWhole()).getWhat() != zero::Storage::parameters)
        continue;
      for (Operation *op : {gather.getOwn().getDefiningOp(), gather.getWhole().getDefiningOp(), gather.getOperation()})
        op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
    }
  }

  Mesh mesh;
};

} // namespace

std::unique_ptr<Pass> createZeroDelayUpdate(const ShardOptions &options) {
  return std::make_unique<ZeroDelayUpdatePass>(options);
}

} // namespace zc
