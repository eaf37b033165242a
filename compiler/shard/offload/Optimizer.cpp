//===- Optimizer.cpp - gradients down, the update on the host, parameters up -----------===//
//
// The cut of ZeRO-Offload (arXiv 2101.06840, section 4.1): gradients cross to the host once, parameters come back once,
// all that is O(model x batch) stays on the device. A bucket's gradient leaves as soon as it is reduced and is squared
// into the exact norm as it lands; the update needs nothing but its own bucket when nothing is clipped, so it runs
// beside the rest of backward.
//
//===----------------------------------------------------------------------===//

#include "compiler/shard/offload/Offload.h"

using namespace mlir;
using namespace zc;
using namespace zc::offload;
using zero::Storage;
using zero::Tier;

namespace {

class OptimizerOffload {
public:
  OptimizerOffload(Context &context, ArrayRef<zero::BucketOp> buckets)
      : context(context), microSteps(zero::microStepsOf(context.module)) {
    for (zero::BucketOp bucket : buckets)
      offloaded[bucket.getSymName()] = bucket;
  }

  void run(int64_t readAhead) {
    for (Operation &op : llvm::make_early_inc_range(context.micro.getBlock())) {
      if (auto reduce = dyn_cast<zero::ReduceScatterOp>(op))
        landShardOf(reduce);
      else if (auto sum = dyn_cast<zero::DequantizeSumOp>(op))
        landShardOf(sum);
    }
    Block &block = context.update.getBlock();
    SmallVector<zero::ClipFactorOp> clips(block.getOps<zero::ClipFactorOp>());
    for (zero::ClipFactorOp clip : clips)
      lowerClip(clip);
    SmallVector<Operation *> replaced(clips.begin(), clips.end());
    SmallVector<zero::UpdateOp> updates(block.getOps<zero::UpdateOp>());
    Operation *end = updates.empty() ? block.getTerminator() : updates.back()->getNextNode();
    llvm::erase_if(updates, [&](zero::UpdateOp update) { return !bucketOf(update.getGradient()); });
    if (isUpdatedAsLanded())
      orderAsLanded(updates);
    else
      context.updateStaging.readAhead(readAhead);
    for (zero::UpdateOp update : updates)
      rewriteUpdate(update, bucketOf(update.getGradient()), end);
    replaced.append(updates.begin(), updates.end());
    SmallVector<zero::PublishOp> publishes(block.getOps<zero::PublishOp>());
    llvm::erase_if(publishes, [&](zero::PublishOp publish) { return !bucketOf(publish.getSource()); });
    for (zero::PublishOp publish : publishes)
      rewritePublish(publish, bucketOf(publish.getSource()));
    replaced.append(publishes.begin(), publishes.end());
    eraseWithOperands(replaced);
  }

private:
  /// The offloaded bucket that `value` is storage of, or part of that; or null.
  zero::BucketOp bucketOf(Value value) {
    auto storage = zero::viewedValue(value).getDefiningOp<zero::StorageOp>();
    return storage ? offloaded.lookup(storage.getBucket()) : zero::BucketOp();
  }

  zero::BufferType accumulatorOn(Tier tier) {
    MLIRContext *c = context.module.getContext();
    return zero::BufferType::get(c, zero::kNormLimbs, IntegerType::get(c, 64), tier);
  }

  //===-- the micro-step ------------------------------------------------------===//

  /// `op` writes a reduced gradient: where it is storage off the device, into a shard that then leaves.
  template <typename Reduction> void landShardOf(Reduction op) {
    zero::BucketOp bucket = bucketOf(op.getShard());
    if (!bucket || bucket.getGradientsTier() == Tier::device)
      return;
    OpBuilder builder(op);
    Operation *stored = op.getShard().getDefiningOp();
    bool accumulate = op.getAccumulate();
    int64_t elements = static_cast<int64_t>(bucket.getPadded()) / zero::cutsOf(bucket, context.mesh);
    Value reduced;
    // One rank's gradient that is not scaled is its own sum.
    auto plain = dyn_cast<zero::ReduceScatterOp>(*op);
    Type sums = bucket.getStoredType(Storage::gradients);
    if (plain && context.mesh.dataDegree() == 1 && plain.getScale().isExactlyValue(1.0) && sums == bucket.getType()) {
      reduced = plain.getBuffer();
    } else {
      reduced = builder.create<zero::AllocOp>(
          op.getLoc(), zero::BufferType::get(builder.getContext(), elements, sums, Tier::device));
      op.getShardMutable().assign(reduced);
      op.setAccumulate(false);
    }
    builder.setInsertionPointAfter(op);
    land(builder, op.getLoc(), bucket, reduced, accumulate);
    if (op.getShard() != reduced)
      op.erase();
    stored->erase();
  }

  /// The reduced gradient goes to the bucket's storage, chunk by chunk, and into the norm.
  void land(OpBuilder &builder, Location location, zero::BucketOp bucket, Value reduced, bool accumulate) {
    Landing &landing = landings.try_emplace(bucket, Landing{landings.size()}).first->second;
    bool isSum = ++landing.count == microSteps; // of all micro-steps that stand in the program
    int64_t elements = cast<zero::BufferType>(reduced.getType()).getNumElements();
    for (Chunk chunk : chunksOf(elements, context.chunkElements)) {
      Value part = partOf(builder, location, reduced, chunk);
      Value target = storageChunk(builder, location, bucket, Storage::gradients, chunk, context.mesh);
      Value landed = bucket.getGradientsTier() == Tier::host ? landOnHost(builder, location, part, target, accumulate)
                                                             : landInFile(builder, location, part, target, accumulate);
      if (isSum)
        addToNorm(builder, location, bucket, landed);
      if (bucket.getGradientsTier() == Tier::nvme)
        builder.create<zero::EvictOp>(location, landed, target);
    }
  }

  Value stage(OpBuilder &builder, Location location, StringRef use, Value like) {
    auto type = cast<zero::BufferType>(like.getType());
    return context.microStaging.next(builder, location, use, type.getNumElements(), type.getElementType());
  }

  Value landOnHost(OpBuilder &builder, Location location, Value part, Value target, bool accumulate) {
    Value landing = accumulate ? stage(builder, location, "gradients", part) : target;
    builder.create<zero::EvictOp>(location, part, landing);
    if (accumulate)
      builder.create<zero::AccumulateOp>(location, landing, target);
    return target;
  }

  Value landInFile(OpBuilder &builder, Location location, Value part, Value target, bool accumulate) {
    Value landing = stage(builder, location, "gradients", part);
    builder.create<zero::EvictOp>(location, part, landing);
    if (!accumulate)
      return landing;
    Value sum = stage(builder, location, "sums", part);
    builder.create<zero::FetchOp>(location, target, sum);
    builder.create<zero::AccumulateOp>(location, landing, sum);
    return sum;
  }

  zero::StorageOp accumulator(OpBuilder &builder, Location location) {
    return zero::createStorage(builder, location, keeper, Storage::norm, context.mesh);
  }

  /// The accumulator is kept by the bucket whose gradient lands first.
  void addToNorm(OpBuilder &builder, Location location, zero::BucketOp bucket, Value gradient) {
    bool first = !keeper;
    if (first) {
      keeper = bucket;
      norm = accumulator(builder, location);
    }
    Value share = zero::normShare(builder, location, bucket, gradient, context.mesh);
    norm = builder.create<zero::NormPartialOp>(location, accumulatorOn(Tier::host), share, norm, first);
  }

  //===-- the update ----------------------------------------------------------===//

  /// Partial norms of buckets that stay on the device are added to the sum of the landed ones; where none stays, the
  /// clipping factor is computed on the host. The old factor stays for the updates that are not rewritten yet.
  void lowerClip(zero::ClipFactorOp clip) {
    OpBuilder builder(clip);
    Location location = clip.getLoc();
    SmallVector<Value> onDevice;
    for (auto partial : context.update.getBlock().getOps<zero::NormPartialOp>())
      if (zero::BucketOp bucket = bucketOf(partial.getGradient()); !bucket || bucket.getGradientsTier() == Tier::device)
        onDevice.push_back(partial.getGradient());
    Tier tier = onDevice.empty() ? Tier::host : Tier::device;
    Value sum = keeper ? Value(accumulator(builder, location)) : Value();
    if (sum && tier == Tier::device) {
      auto load = builder.create<zero::LoadOp>(location, [&](OpBuilder &inside) -> Value {
        Value loaded = inside.create<zero::AllocOp>(location, accumulatorOn(tier));
        inside.create<zero::FetchOp>(location, sum, loaded);
        return loaded;
      });
      sum = load.getBuffer();
    }
    for (Value gradient : onDevice)
      sum = builder.create<zero::NormPartialOp>(location, accumulatorOn(tier), gradient, sum, false);
    sum = zero::sumOverRanks(builder, location, sum, context.mesh);
    auto scalarOn = [&](Tier where) {
      return zero::BufferType::get(builder.getContext(), 1, builder.getF32Type(), where);
    };
    Value weight = clip.getWeight();
    if (weight && tier == Tier::host) {
      Value onHost = builder.create<zero::AllocOp>(
          location, zero::BufferType::get(builder.getContext(), 1, builder.getF64Type(), tier));
      builder.create<zero::EvictOp>(location, weight, onHost);
      weight = onHost;
    }
    Value made = builder
                     .create<zero::ClipFactorOp>(location, scalarOn(tier), scalarOn(tier), sum, weight,
                                                 clip.getMaxNormAttr(), clip.getTermsAttr(), clip.getScaledAttr())
                     .getFactor();
    if (tier == Tier::device)
      clip.getFactor().replaceAllUsesWith(made);
    // With neither clipping nor weights nor a scaled loss the factor is known before any gradient is: updates on the
    // host then do not wait for the norm.
    if (!keeper || tier == Tier::host)
      factors = {made, made};
    factors.dependOnNorm = !keeper || clip.getMaxNormAttr() || clip.getWeight() || clip.getScaled();
    if (!factors.dependOnNorm) {
      factors.onHost = builder.create<zero::FillOp>(location, scalarOn(Tier::host), builder.getF64FloatAttr(1.0));
    } else if (keeper && tier == Tier::device) {
      factors.onHost = builder.create<zero::AllocOp>(location, scalarOn(Tier::host));
      builder.create<zero::EvictOp>(location, made, factors.onHost);
    }
    factors.onDevice = made;
  }

  /// Each update may run as soon as its gradient is there, so they follow each other, and take their turns on the
  /// staging, as gradients land. Else in the order in which the next forward wants the parameters.
  bool isUpdatedAsLanded() { return !factors.dependOnNorm && zero::microExecutionsOf(context.module) == 1; }

  /// `updates` stand in the order in which the next forward wants the parameters; they are given that in which
  /// gradients land. As many of them as forward is of the step's work stay behind in the first order, since in forward
  /// none lands: what they move over the links takes that time too, and forward waits for no more than it has come to.
  /// Not where it reads the parameters behind their state, nor where nothing waits for the update.
  void orderAsLanded(SmallVector<zero::UpdateOp> &updates) {
    const SmallVector<zero::UpdateOp> wanted = updates;
    auto landing = [&](zero::UpdateOp update) { return landings.lookup(bucketOf(update.getGradient())).order; };
    llvm::stable_sort(updates, [&](zero::UpdateOp a, zero::UpdateOp b) { return landing(a) < landing(b); });
    const auto [forward, all] = forwardOfAll();
    double landed = 0, left = 0; // elements
    llvm::DenseSet<Operation *> isLeft;
    for (zero::UpdateOp update : updates) {
      zero::BucketOp bucket = bucketOf(update.getGradient());
      auto elements = static_cast<double>(bucket.getPadded());
      landed += elements;
      bool mayStay =
          !bucket.getDelayed() && bucket.getGradientsTier() != Tier::device && bucket.getParametersTier() != Tier::nvme;
      if (!mayStay || (left + elements) * all > landed * forward)
        continue;
      isLeft.insert(update);
      left += elements;
    }
    llvm::erase_if(updates, [&](zero::UpdateOp update) { return isLeft.contains(update); });
    llvm::copy_if(wanted, std::back_inserter(updates), [&](zero::UpdateOp update) { return isLeft.contains(update); });
  }

  /// The arithmetic of forward, and of the micro-step.
  std::pair<double, double> forwardOfAll() {
    double forward = 0, all = 0;
    bool isForward = true;
    Operation *border = context.micro.getBackward();
    for (Operation &op : context.micro.getBlock()) {
      isForward &= &op != border;
      auto kernel = dyn_cast<graph::KernelOp>(op);
      const double flops = kernel && !graph::isView(&op) ? kernel.getFlops() : 0;
      all += flops;
      forward += isForward ? flops : 0;
    }
    return {forward, all};
  }

  void rewriteUpdate(zero::UpdateOp update, zero::BucketOp bucket, Operation *end) {
    OpBuilder builder(end);
    int64_t elements = static_cast<int64_t>(bucket.getPadded()) / zero::cutsOf(bucket, context.mesh);
    for (Chunk chunk : chunksOf(elements, context.chunkElements))
      updateChunk(builder, update, bucket, chunk);
  }

  /// `ops` that nothing uses any more, and what made operands for them alone. Together, since one may be what makes
  /// another's.
  static void eraseWithOperands(ArrayRef<Operation *> ops) {
    llvm::SetVector<Operation *> work(ops.begin(), ops.end());
    while (!work.empty()) {
      Operation *next = work.pop_back_val();
      if (!next->use_empty())
        continue;
      SmallVector<Value> operands(next->getOperands());
      next->erase();
      for (Value operand : operands)
        if (Operation *maker = operand.getDefiningOp())
          work.insert(maker);
    }
  }

  /// Reads what lies in the file into the staging, computes where the state is or above the file, writes back what
  /// changed, sends the parameters home.
  void updateChunk(OpBuilder &builder, zero::UpdateOp update, zero::BucketOp bucket, Chunk chunk) {
    Location location = update.getLoc();
    Staging &staging = context.updateStaging;
    Tier tier = std::min(bucket.getOptimizerTier(), Tier::host); // where it computes
    SmallVector<std::pair<Value, Value>> writeBack;              // staged, stored
    auto load = [&](Storage what, bool changes) -> Value {
      Value stored = storageChunk(builder, location, bucket, what, chunk, context.mesh);
      if (bucket.getTier(what) == tier)
        return stored;
      Value staged =
          staging.next(builder, location, zero::stringifyStorage(what), chunk.count, bucket.getStoredType(what));
      builder.create<zero::FetchOp>(location, stored, staged);
      if (changes)
        writeBack.push_back({staged, stored});
      return staged;
    };
    Value gradient = load(Storage::gradients, false);
    Value weights = load(bucket.hasMaster() ? Storage::master : Storage::parameters, true);
    SmallVector<Value> moments;
    for (unsigned i = 0; i < momentsOf(update.getRule()); ++i)
      moments.push_back(load(i == 0 ? Storage::moment1 : Storage::moment2, true));
    Value home, copy;
    if (bucket.hasMaster() && !bucket.getDelayed()) {
      home = storageChunk(builder, location, bucket, Storage::parameters, chunk, context.mesh,
                          /*own=*/!bucket.getParametersSharded());
      if (bucket.getParametersTier() == tier)
        copy = home;
      else if (!bucket.getType().isF32())
        copy = tier == Tier::host
                   ? staging.next(builder, location, "copy", chunk.count, bucket.getType())
                   : Value(builder.create<zero::AllocOp>(
                         location, zero::BufferType::get(builder.getContext(), chunk.count, bucket.getType(), tier)));
    }
    builder.create<zero::UpdateOp>(location, gradient, tier == Tier::host ? factors.onHost : factors.onDevice, weights,
                                   moments, copy, update.getRule(), update.getBeta1(), update.getBeta2(),
                                   update.getEps(), update.getMomentum(), update.getWeightDecay(),
                                   update.getLrScaleAttr());
    for (auto [staged, stored] : writeBack)
      builder.create<zero::EvictOp>(location, staged, stored);
    if (home && copy != home)
      context.move(builder, location, staging, "parameters", copy ? copy : weights, home);
  }

  void rewritePublish(zero::PublishOp publish, zero::BucketOp bucket) {
    OpBuilder builder(publish);
    int64_t elements = static_cast<int64_t>(bucket.getPadded()) / zero::cutsOf(bucket, context.mesh);
    for (Chunk chunk : chunksOf(elements, context.chunkElements))
      publishChunk(builder, publish.getLoc(), bucket, chunk);
  }

  /// The weights of a delayed update go home a step later. In 16 bits they are made where the update computes: a copy
  /// that waits for its step would be another 2 b per parameter.
  void publishChunk(OpBuilder &builder, Location location, zero::BucketOp bucket, Chunk chunk) {
    Staging &staging = context.updateStaging;
    Tier tier = std::min(bucket.getOptimizerTier(), Tier::host); // where it computes
    Value weights = storageChunk(builder, location, bucket, Storage::master, chunk, context.mesh);
    Value home = storageChunk(builder, location, bucket, Storage::parameters, chunk, context.mesh,
                              /*own=*/!bucket.getParametersSharded());
    bool isHere = bucket.getParametersTier() == tier;
    bool isInMemory = bucket.getOptimizerTier() == tier;
    if (bucket.getType().isF32() && !(isHere && isInMemory))
      return context.move(builder, location, staging, "published", weights, home);
    if (!isInMemory) {
      Value staged = staging.next(builder, location, "published", chunk.count, builder.getF32Type());
      builder.create<zero::FetchOp>(location, weights, staged);
      weights = staged;
    }
    Value copy = home;
    if (!isHere)
      copy = tier == Tier::host
                 ? staging.next(builder, location, "copy", chunk.count, bucket.getType())
                 : Value(builder.create<zero::AllocOp>(
                       location, zero::BufferType::get(builder.getContext(), chunk.count, bucket.getType(), tier)));
    builder.create<zero::PublishOp>(location, weights, copy);
    if (!isHere)
      context.move(builder, location, staging, "parameters", copy, home);
  }

  Context &context;
  llvm::MapVector<StringRef, zero::BucketOp> offloaded;
  zero::BucketOp keeper; ///< of the accumulator of landed gradients; null when none lands
  Value norm;            ///< that accumulator, as far as the micro-step has filled it
  struct Landing {
    size_t order = 0;  ///< how many buckets landed before
    int64_t count = 0; ///< how often this one did
  };
  llvm::DenseMap<zero::BucketOp, Landing> landings;
  int64_t microSteps; ///< that stand in the program
  struct {
    Value onHost, onDevice;
    bool dependOnNorm = true;
  } factors; ///< of clipping
};

} // namespace

void offload::offloadOptimizer(Context &context, ArrayRef<zero::BucketOp> buckets, int64_t readAhead) {
  OptimizerOffload(context, buckets).run(readAhead);
}
