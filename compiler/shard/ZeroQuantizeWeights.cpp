//===- ZeroQuantizeWeights.cpp - qwZ: parameters are gathered as int8 ---------------===//

#include "compiler/shard/CollectiveTypes.h"
#include "compiler/shard/Passes.h"

namespace zc {
#define GEN_PASS_DEF_ZEROQUANTIZEWEIGHTS
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct ZeroQuantizeWeightsPass : StagePass<impl::ZeroQuantizeWeightsBase<ZeroQuantizeWeightsPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.quantizeBlock > 0)
      block = options.quantizeBlock;
    SmallVector<zero::GatherOp> gathers;
    getOperation().walk([&](zero::GatherOp gather) { gathers.push_back(gather); });
    for (zero::GatherOp gather : gathers)
      if (isa<FloatType>(gather.getType().getElementType()) && failed(lower(gather)))
        return signalPassFailure();
  }

  /// Forward and backward quantize the same shard, and so compute with the same weights.
  LogicalResult lower(zero::GatherOp gather) {
    if (failed(checkQuantizable(gather, gather.getType())))
      return failure();
    OpBuilder builder(gather);
    Location loc = gather.getLoc();
    int64_t shard = gather.getShard().getType().getNumElements();
    int64_t members = gather.getType().getNumElements() / shard;
    QuantizedPiece piece{shard, bits, block};
    Value own = builder.create<zero::QuantizeOp>(loc, quantizedType(gather.getType(), 1, piece), gather.getShard(),
                                                 Value(), bits, block, /*rows=*/1, /*columns=*/1, APFloat(0.0));
    Value all =
        builder.create<zero::GatherOp>(loc, quantizedType(gather.getType(), members, piece), own, gather.getAxesAttr());
    Value whole =
        builder.create<zero::DequantizeOp>(loc, gather.getType(), all, bits, block, /*rows=*/1, /*columns=*/members);
    gather.getResult().replaceAllUsesWith(whole);
    gather.erase();
    ++numGathers;
    return success();
  }

  static constexpr int64_t bits = 8;
  int64_t block = kWeightBlock; ///< elements per scale
};

} // namespace

std::unique_ptr<Pass> createZeroQuantizeWeights(const ShardOptions &options) {
  return std::make_unique<ZeroQuantizeWeightsPass>(options);
}

} // namespace zc
