//===- ZeroOffload.cpp - optimizer state, parameters, activations off the device --------===//

#include "compiler/shard/Passes.h"
#include "compiler/shard/offload/Offload.h"

namespace zc {
#define GEN_PASS_DEF_ZEROOFFLOAD
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct ZeroOffloadPass : StagePass<impl::ZeroOffloadBase<ZeroOffloadPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    graph::ProgramOp micro = graph::programOf(module, graph::Phase::micro),
                     update = graph::programOf(module, graph::Phase::update);
    if (!micro || !update) {
      module.emitError("zero-offload needs a micro and an update program");
      return signalPassFailure();
    }
    const Mesh mesh = zero::meshOf(module);
    const int64_t unit = kUnit * mesh.size(mesh.modelAxes()); // of the norm each has a share
    offload::Context context{module,
                             mesh,
                             std::max<int64_t>(1, options.chunk / unit) * unit / 4,
                             micro,
                             update,
                             offload::Staging(micro),
                             offload::Staging(update)};
    if (failed(placeBuckets(context.mesh)))
      return signalPassFailure();
    // The update's copies go to where parameters live, so both are known before either is rewritten.
    if (!moved.empty())
      offload::offloadOptimizer(context, moved, options.readAhead);
    if (options.offloadParam != Offload::none) {
      offload::offloadParameters(context, micro, context.microStaging);
      if (graph::ProgramOp eval = graph::programOf(module, graph::Phase::eval)) {
        offload::Staging staging(eval);
        offload::offloadParameters(context, eval, staging);
        staging.finish();
      }
    }
    if (options.offloadActivation != Offload::none)
      offload::offloadActivations(context, tierOf(options.offloadActivation));
    context.microStaging.finish();
    context.updateStaging.finish();
  }

private:
  /// Bytes of which chunks are multiples in fp32, so that they are whole blocks of a file in 16 bits too.
  static constexpr int64_t kUnit = 8192;

  static zero::Tier tierOf(Offload place) {
    switch (place) {
    case Offload::none:
      return zero::Tier::device;
    case Offload::host:
      return zero::Tier::host;
    case Offload::nvme:
      return zero::Tier::nvme;
    }
    llvm_unreachable("no place");
  }

  /// With the optimizer, but no further down than they must: in a file each is written, and read again when its update
  /// follows, or the next micro-step.
  zero::Tier gradientsTierOf(zero::BucketOp bucket, const Mesh &mesh) {
    const int64_t bytes = zero::storedElements(bucket, zero::Storage::gradients, mesh) *
                          graph::bytesOfElement(bucket.getStoredType(zero::Storage::gradients));
    if (bucket.getOptimizerTier() != zero::Tier::nvme || bytes > gradientsLeft)
      return bucket.getOptimizerTier();
    gradientsLeft -= bytes;
    return zero::Tier::host;
  }

  LogicalResult placeBuckets(const Mesh &mesh) {
    gradientsLeft = options.gradientsOnHost;
    const zero::Tier optimizerTier = tierOf(options.offloadOptimizer), paramTier = tierOf(options.offloadParam);
    int64_t trainable = 0, placed = 0, hostLeft = options.residentOnHost;
    SmallVector<zero::BucketOp> buckets(getOperation().getOps<zero::BucketOp>());
    for (zero::BucketOp bucket : buckets) {
      for (zero::Tier tier : {bucket.getParametersTier(), bucket.getGradientsTier(), bucket.getOptimizerTier()})
        if (tier != zero::Tier::device)
          return bucket.emitError("is on other tiers already: zero-offload comes once");
      const int64_t cuts = zero::cutsOf(bucket, mesh);
      zero::Tier tier = bucket.getResident() ? zero::Tier::device : paramTier;
      if (tier != zero::Tier::device && cuts > 1 && !bucket.getParametersSharded())
        return bucket.emitError("parameters that are not cut (stage 3) cannot be offloaded");
      int64_t share = static_cast<int64_t>(bucket.getPadded()) / cuts * graph::bytesOfElement(bucket.getType());
      if (tier == zero::Tier::nvme && share <= hostLeft) {
        tier = zero::Tier::host;
        hostLeft -= share;
      }
      bucket.setParametersTier(tier);
      trainable += bucket.getTrainable() ? static_cast<int64_t>(bucket.getPadded()) : 0;
    }
    // The buckets used first get their gradients last and are needed first: they are the ones to keep on the device.
    for (zero::BucketOp bucket : llvm::reverse(buckets)) {
      if (!bucket.getTrainable())
        continue;
      bool paramsMoved = bucket.getParametersTier() != zero::Tier::device;
      if (paramsMoved)
        moved.push_back(bucket);
      if (optimizerTier == zero::Tier::device ||
          static_cast<double>(placed) >= options.offloadRatio * static_cast<double>(trainable))
        continue;
      if (zero::cutsOf(bucket, mesh) > 1 && !bucket.getOptimizerSharded())
        return bucket.emitError("optimizer state that is not cut (stages 1 to 3) cannot be offloaded");
      placed += static_cast<int64_t>(bucket.getPadded());
      bucket.setOptimizerTier(optimizerTier);
      bucket.setGradientsSharded(zero::cutsOf(bucket, mesh) > 1);
      bucket.setGradientsTier(gradientsTierOf(bucket, mesh));
      if (!paramsMoved)
        moved.push_back(bucket);
    }
    return success();
  }

  int64_t gradientsLeft = 0;         ///< bytes that the host may still have of them
  SmallVector<zero::BucketOp> moved; ///< trainable ones that are not all on the device
};

} // namespace

std::unique_ptr<Pass> createZeroOffload(const ShardOptions &options) {
  return std::make_unique<ZeroOffloadPass>(options);
}

} // namespace zc
