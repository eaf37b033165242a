//===- ZeroPartition.cpp - ZeRO stages: what is cut, and when it is reduced ---------===//

#include "compiler/shard/Passes.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/zero/Execution.h"

namespace zc {
#define GEN_PASS_DEF_ZEROPARTITION
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// The gradients of one bucket in the micro-step.
struct BucketGradients {
  zero::BucketOp bucket;
  SmallVector<std::pair<graph::AccumulateGradOp, int64_t>> writes; ///< in program order, with element offsets
};

struct ZeroPartitionPass : StagePass<impl::ZeroPartitionBase<ZeroPartitionPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = module.getOps<zero::MeshOp>();
    if (meshes.empty()) {
      module.emitError("zero-partition needs a zero.mesh");
      return signalPassFailure();
    }
    mesh = zero::meshOf(module);
    degree = mesh.dataDegree();
    for (auto bucket : module.getOps<zero::BucketOp>()) {
      markCuts(bucket);
      buckets.push_back({bucket, {}});
      for (auto member : bucket.getMembers().getAsRange<zero::MemberAttr>())
        places[member.getParameter().getValue()] = {buckets.size() - 1, member.getOffset()};
    }
    training = graph::trainingOf(module);
    // Gradients of ranks and micro-steps are averaged, unless the model's own algorithm sums them.
    gradientScale = training.sumsGradients ? 1.0 : 1.0 / static_cast<double>(degree * options.accumulation);
    zero::Execution execution = zero::executionOf(module);
    execution.stage = options.stage;
    execution.accumulation = options.accumulation;
    zero::setExecution(module, execution);
    for (auto program : module.getOps<graph::ProgramOp>()) {
      if (failed(checkBuckets(program)))
        return signalPassFailure();
      if (program.getPhase() == graph::Phase::micro)
        partitionGradients(program);
      else if (program.getPhase() == graph::Phase::update && !training.forwardOnly)
        partitionUpdate(program);
    }
  }

  /// Whose gradients and updates stand in a program has a place, and a factor that this pass makes anew.
  LogicalResult checkBuckets(graph::ProgramOp program) {
    for (Operation &op : program.getBlock()) {
      auto write = dyn_cast<graph::AccumulateGradOp>(op);
      auto update = dyn_cast<graph::UpdateOp>(op);
      if (!write && !update)
        continue;
      StringRef name = write ? write.getParameter() : update.getParameter();
      if (auto place = places.find(name); place == places.end() || !buckets[place->second.first].bucket.getTrainable())
        return op.emitError("parameter '") << name << "' is in no bucket that trains: zero-bucket comes before";
      if (update && !update.getFactor().getDefiningOp<graph::ClipFactorOp>())
        return op.emitError("its factor is not that of a graph.clip_factor");
    }
    return success();
  }

  /// One rank holds everything: nothing is cut, whatever the stage.
  void markCuts(zero::BucketOp bucket) {
    bool isCut = zero::cutsOf(bucket, mesh) > 1;
    if (options.gradAccumDtype == GradAccumDtype::fp32 && bucket.getTrainable() && zero::hasWiderSums(bucket.getType()))
      bucket.setGradientType(Float32Type::get(&getContext()));
    bucket.setOptimizerSharded(bucket.getTrainable() && isCut && options.stage >= 1);
    bucket.setGradientsSharded(bucket.getTrainable() && isCut && options.stage >= 2);
    bucket.setParametersSharded(isCut && options.stage >= 3 && !bucket.getResident());
  }

  zero::BufferType bufferOf(zero::BucketOp bucket) {
    return zero::BufferType::get(&getContext(), bucket.getPadded(), bucket.getType(), zero::Tier::device);
  }

  void partitionGradients(graph::ProgramOp program) {
    Block &block = program.getBlock();
    for (auto write : block.getOps<graph::AccumulateGradOp>()) {
      auto [index, offset] = places.lookup(write.getParameter());
      buckets[index].writes.push_back({write, offset});
    }
    for (BucketGradients &gradients : buckets)
      if (!gradients.writes.empty())
        lowerBucketGradients(gradients);
    auto exit = cast<graph::ReturnOp>(block.getTerminator());
    if (Value loss = exit.getLoss())
      OpBuilder(exit).create<zero::RecordLossOp>(loss.getLoc(), loss, exit.getLossWeight());
  }

  void lowerBucketGradients(BucketGradients &gradients) {
    // The buffer opens before the first producer, so that producers can write into it; that of one gradient before what
    // the gradient is computed over: a head's, onto which that of an embedding is added which it is tied to.
    Operation *first = gradients.writes.front().first;
    for (auto &[write, offset] : gradients.writes)
      for (Value value = graph::viewedValue(write.getGrad()); value && value.getDefiningOp();
           value = gradients.writes.size() == 1 ? graph::computedOver(value) : Value())
        if (value.getDefiningOp()->isBeforeInBlock(first))
          first = value.getDefiningOp();
    OpBuilder builder(first);
    Value buffer =
        builder.create<zero::GradBufferOp>(first->getLoc(), bufferOf(gradients.bucket), gradients.bucket.getSymName());
    Operation *last = nullptr;
    for (auto &[write, offset] : gradients.writes) {
      builder.setInsertionPoint(write);
      last = builder.create<zero::PutOp>(write.getLoc(), write.getGrad(), buffer, offset);
      write.erase();
    }
    builder.setInsertionPointAfter(last);
    Value shard = zero::createStorage(builder, last->getLoc(), gradients.bucket, zero::Storage::gradients, mesh,
                                      /*own=*/true);
    builder.create<zero::ReduceScatterOp>(last->getLoc(), buffer, shard, APFloat(gradientScale),
                                          options.accumulation > 1, ArrayAttr());
  }

  void partitionUpdate(graph::ProgramOp program) {
    Block &block = program.getBlock();
    OpBuilder builder(&block, block.begin());
    Location loc = program.getLoc();
    bool replicated = degree > 1 && options.stage == 0;
    if (replicated) // the second half of the all-reduce
      forEachTrainable([&](zero::BucketOp bucket) { allGather(builder, loc, bucket, zero::Storage::gradients); });
    // Where the losses have weights, their sum is what gradients are divided by.
    Value weight;
    if (training.weightedLoss)
      weight = builder
                   .create<zero::ReduceLossOp>(
                       loc, zero::BufferType::get(&getContext(), 1, builder.getF64Type(), zero::Tier::device))
                   .getWeight();
    for (auto clip : block.getOps<graph::ClipFactorOp>())
      lowerClip(clip, weight);
    lowerUpdates(block);
    builder.setInsertionPoint(block.getTerminator());
    forEachTrainable([&](zero::BucketOp bucket) {
      if (bucket.getOptimizerSharded() && !bucket.getParametersSharded())
        allGather(builder, loc, bucket, zero::Storage::parameters);
    });
    if (!training.weightedLoss)
      builder.create<zero::ReduceLossOp>(loc, Type());
  }

  void forEachTrainable(llvm::function_ref<void(zero::BucketOp)> visit) {
    for (BucketGradients &gradients : buckets)
      if (gradients.bucket.getTrainable())
        visit(gradients.bucket);
  }

  void allGather(OpBuilder &builder, Location loc, zero::BucketOp bucket, zero::Storage what) {
    Value own = zero::createStorage(builder, loc, bucket, what, mesh, /*own=*/true);
    builder.create<zero::AllGatherOp>(loc, own, zero::createStorage(builder, loc, bucket, what, mesh));
  }

  void lowerClip(graph::ClipFactorOp clip, Value weight) {
    OpBuilder builder(clip);
    Location loc = clip.getLoc();
    auto limbs = zero::BufferType::get(&getContext(), zero::kNormLimbs, builder.getI64Type(), zero::Tier::device);
    Value sum;
    forEachTrainable([&](zero::BucketOp bucket) {
      Value own = zero::createStorage(builder, loc, bucket, zero::Storage::gradients, mesh, /*own=*/true);
      Value gradient = zero::normShare(builder, loc, bucket, own, mesh);
      sum = builder.create<zero::NormPartialOp>(loc, limbs, gradient, sum);
    });
    sum = zero::sumOverRanks(builder, loc, sum, mesh);
    auto scalar = zero::BufferType::get(&getContext(), 1, builder.getF32Type(), zero::Tier::device);
    factor = builder
                 .create<zero::ClipFactorOp>(loc, scalar, scalar, sum, weight, clip.getMaxNormAttr(),
                                             weight ? builder.getI64IntegerAttr(degree * options.accumulation)
                                                    : IntegerAttr(),
                                             clip.getScaledAttr())
                 .getFactor();
  }

  /// One update per bucket: members agree on everything by construction of zero-bucket.
  void lowerUpdates(Block &block) {
    llvm::SmallBitVector done(buckets.size());
    for (auto update : llvm::make_early_inc_range(block.getOps<graph::UpdateOp>())) {
      size_t index = places.lookup(update.getParameter()).first;
      if (!done.test(index)) {
        lowerUpdate(update, buckets[index].bucket);
        done.set(index);
      }
      update.erase();
    }
    for (auto clip : llvm::make_early_inc_range(block.getOps<graph::ClipFactorOp>()))
      clip.erase();
  }

  /// Over the whole bucket where every rank keeps all optimizer state, over this rank's shard otherwise.
  void lowerUpdate(graph::UpdateOp update, zero::BucketOp bucket) {
    OpBuilder builder(update);
    Location loc = update->getParentOp()->getLoc();
    auto stored = [&](zero::Storage what) -> Value {
      return zero::createStorage(builder, loc, bucket, what, mesh, bucket.getOptimizerSharded());
    };
    Value gradient = stored(zero::Storage::gradients), parameters = stored(zero::Storage::parameters);
    SmallVector<Value> moments;
    for (unsigned i = 0; i < momentsOf(update.getRule()); ++i)
      moments.push_back(stored(i == 0 ? zero::Storage::moment1 : zero::Storage::moment2));
    Value master = bucket.hasMaster() ? stored(zero::Storage::master) : Value();
    builder.create<zero::UpdateOp>(loc, gradient, factor, master ? master : parameters, moments,
                                   master ? parameters : Value(), update.getRule(), update.getBeta1(),
                                   update.getBeta2(), update.getEps(), update.getMomentum(), update.getWeightDecay(),
                                   update.getLrScaleAttr());
  }

  Mesh mesh;
  int64_t degree = 1; ///< data-parallel
  graph::Training training;
  double gradientScale = 1;
  Value factor; ///< the clipping factor
  SmallVector<BucketGradients> buckets;
  llvm::StringMap<std::pair<size_t, int64_t>> places; ///< parameter -> bucket index, element offset
};

} // namespace

std::unique_ptr<Pass> createZeroPartition(const ShardOptions &options) {
  return std::make_unique<ZeroPartitionPass>(options);
}

} // namespace zc
