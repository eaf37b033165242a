//===- PlanMemory.cpp - static offsets from lifetimes ------------------------------------===//

#include "base/Size.h"
#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/FreeNames.h"
#include "dialects/zero/Execution.h"
#include "runtime/plan/Tiers.h"

#include <limits>

namespace zc {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

constexpr size_t kNumTiers = zero::getMaxEnumValForTier() + 1;
constexpr size_t kNumStorages = zero::getMaxEnumValForStorage() + 1;

/// One tier being filled: first what outlives the step, then, over the same bytes in all programs, what does not.
struct TierPlan {
  zero::Tier tier = zero::Tier::device;
  int64_t alignment = MemoryProblem::kAlignment;
  int64_t budget = 0;  ///< bytes; 0: none
  plan::ArenaOp arena; ///< made when the first slice needs it
  int64_t end = 0;     ///< of what outlives the step
  int64_t peak = 0;    ///< of the arena
  Operation *peakOperation = nullptr;
};

struct PlanMemoryPass : StagePass<impl::PlanMemoryBase<PlanMemoryPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    builder.emplace(&getContext());
    setInsertionPointToTop();
    const int64_t budgets[] = {options.budgets.device, options.budgets.host, options.budgets.nvme};
    for (size_t i = 0; i < kNumTiers; ++i) {
      tiers[i].tier = static_cast<zero::Tier>(i);
      tiers[i].budget = budgets[i];
      tiers[i].alignment = static_cast<int64_t>(sliceAlignment(static_cast<planpb::Tier>(i)));
    }
    for (auto symbol : module.getOps<SymbolOpInterface>())
      names.take(symbol.getName());
    placePersistent();
    for (auto program : module.getOps<graph::ProgramOp>())
      if (failed(placeProgram(program)))
        return signalPassFailure();
    for (TierPlan &tier : tiers)
      if (tier.arena)
        tier.arena.setBytes(tier.peak);
    auto isShort = [](const TierPlan &tier) { return tier.budget > 0 && tier.peak > tier.budget; };
    if (auto found = llvm::find_if(tiers, isShort); found != tiers.end()) {
      reportShortfall(*found);
      return signalPassFailure();
    }
  }

private:
  TierPlan &tierOf(Type type) { return tiers[static_cast<size_t>(zero::tierOf(type))]; }

  //===-- what outlives the step --------------------------------------------===//

  FlatSymbolRefAttr persistentSlice(TierPlan &tier, Location loc, const Twine &name, int64_t bytes, plan::Class klass,
                                    std::optional<plan::Metric> metric = std::nullopt) {
    plan::SliceOp slice = makeSlice(tier, loc, name, tier.end, bytes, klass, /*persistent=*/true);
    if (metric)
      slice.setMetric(*metric);
    tier.end += static_cast<int64_t>(llvm::alignTo(bytes, tier.alignment));
    tier.peak = std::max(tier.peak, tier.end);
    return FlatSymbolRefAttr::get(slice.getSymNameAttr());
  }

  /// Behind the mesh, which is the first.
  void setInsertionPointToTop() {
    Block *body = getOperation().getBody();
    builder->setInsertionPoint(body, isa<zero::MeshOp>(body->front()) ? std::next(body->begin()) : body->begin());
  }

  plan::SliceOp makeSlice(TierPlan &tier, Location loc, const Twine &name, int64_t offset, int64_t bytes,
                          plan::Class klass, bool persistent) {
    if (!tier.arena) {
      OpBuilder::InsertionGuard guard(*builder);
      setInsertionPointToTop();
      tier.arena = builder->create<plan::ArenaOp>(
          getOperation().getLoc(), builder->getStringAttr(names.next(zero::stringifyTier(tier.tier).str())),
          plan::TierAttr::get(&getContext(), static_cast<plan::Tier>(tier.tier)), builder->getI64IntegerAttr(0));
    }
    return builder->create<plan::SliceOp>(loc, builder->getStringAttr(names.next(name.str())),
                                          FlatSymbolRefAttr::get(tier.arena), builder->getI64IntegerAttr(offset),
                                          builder->getI64IntegerAttr(bytes), plan::ClassAttr::get(&getContext(), klass),
                                          persistent ? builder->getUnitAttr() : UnitAttr(), plan::MetricAttr());
  }

  void placePersistent() {
    ModuleOp module = getOperation();
    const Mesh mesh = zero::meshOf(module);
    llvm::StringMap<std::array<bool, kNumStorages>> used;
    module.walk([&](zero::StorageOp op) { used[op.getBucket()][static_cast<size_t>(op.getWhat())] = true; });
    const llvm::DenseSet<Attribute> ofMicro = gradientsOfMicro();
    for (auto bucket : module.getOps<zero::BucketOp>())
      placeBucket(bucket, mesh, used[bucket.getSymName()],
                  ofMicro.contains(FlatSymbolRefAttr::get(bucket.getSymNameAttr())));
    TierPlan &device = tiers[0];
    for (auto parameter : module.getOps<graph::ParameterOp>())
      if (parameter.getRole() == graph::Role::buffer)
        parameter->setAttr(placement::kSlice,
                           persistentSlice(device, parameter.getLoc(), "buffer." + parameter.getSymName(),
                                           graph::bytesOf(cast<RankedTensorType>(parameter.getType())),
                                           plan::Class::buffers));
    const graph::Training training = graph::trainingOf(module);
    if (training.forwardOnly)
      return;
    lossSlice = persistentSlice(device, module.getLoc(), "loss_sum", training.weightedLoss ? 16 : 8,
                                plan::Class::buffers, plan::Metric::loss);
    // The norm is known where the clipping factor is computed.
    TierPlan *normTier = &device;
    module.walk([&](zero::ClipFactorOp clip) { normTier = &tierOf(clip.getNorm().getType()); });
    normSlice =
        persistentSlice(*normTier, module.getLoc(), "grad_norm", 4, plan::Class::buffers, plan::Metric::grad_norm);
  }

  /// Buckets whose gradients are nobody's after the micro program: it makes them anew each time, and has the update
  /// too. Those on the device: what leaves it is to find its bytes free, however late the update is with the last.
  llvm::DenseSet<Attribute> gradientsOfMicro() {
    llvm::DenseSet<Attribute> made, used;
    graph::ProgramOp micro = graph::programOf(getOperation(), graph::Phase::micro);
    if (!micro || zero::executionOf(getOperation()).accumulation > 1)
      return {};
    for (auto buffer : micro.getOps<zero::GradBufferOp>())
      made.insert(buffer.getBucketAttr());
    for (auto update : micro.getOps<zero::UpdateOp>())
      if (auto storage = zero::viewedValue(update.getGradient()).getDefiningOp<zero::StorageOp>();
          storage && zero::tierOf(storage.getType()) == zero::Tier::device && made.contains(storage.getBucketAttr()))
        used.insert(storage.getBucketAttr());
    return used;
  }

  /// Everything that programs address as storage of the bucket; parameters and gradients even if no one does.
  void placeBucket(zero::BucketOp bucket, const Mesh &mesh, std::array<bool, kNumStorages> used,
                   bool gradientsAreOfMicro) {
    using zero::Storage;
    used[static_cast<size_t>(Storage::parameters)] = true;
    used[static_cast<size_t>(Storage::gradients)] = bucket.getTrainable() && !gradientsAreOfMicro;
    for (size_t i = 0; i < used.size(); ++i) {
      auto what = static_cast<Storage>(i);
      if (!used[i])
        continue;
      int64_t elements = zero::storedElements(bucket, what, mesh);
      bool isBuffer = zero::isResidual(what) || what == Storage::norm;
      plan::Class klass = what == Storage::parameters  ? plan::Class::parameters
                          : what == Storage::gradients ? plan::Class::gradients
                          : isBuffer                   ? plan::Class::buffers
                                                       : plan::Class::optimizer;
      bucket->setAttr(placement::storageAttribute(what),
                      persistentSlice(tiers[static_cast<size_t>(bucket.getTier(what))], bucket.getLoc(),
                                      bucket.getSymName() + "." + zero::stringifyStorage(what),
                                      elements * graph::bytesOfElement(bucket.getStoredType(what)), klass));
    }
  }

  //===-- what lives inside a program ---------------------------------------===//

  LogicalResult placeProgram(graph::ProgramOp program) {
    SymbolTableCollection symbols;
    for (auto read : program.getOps<graph::ReadOp>())
      if (!placement::sliceOf(symbols.lookupNearestSymbolFrom(read, read.getParameterAttr())))
        return read.emitError("plan-memory needs the zero level: what is read here has no place of its own");
    Lifetimes lifetimes(program, options.overlap, lossSlice, normSlice);
    for (TierPlan &tier : tiers)
      if (failed(placeOnTier(program, lifetimes, tier)))
        return failure();
    annotate(program, lifetimes);
    // A delayed update runs on beside the next micro-step: over the same bytes one would wait for the other.
    if (options.overlap != Overlap::none && zero::executionOf(getOperation()).delayAfter)
      for (TierPlan &tier : tiers)
        if (tier.tier != zero::Tier::device)
          tier.end = tier.peak;
    return success();
  }

  LogicalResult placeOnTier(graph::ProgramOp program, Lifetimes &lifetimes, TierPlan &tier) {
    MemoryProblem problem;
    problem.alignment = tier.alignment;
    SmallVector<Lifetimes::Root *> roots;
    for (Lifetimes::Root &root : lifetimes.roots)
      if (!root.slice && root.tier == tier.tier) {
        roots.push_back(&root);
        auto [first, last] = lifetimes.span(root);
        problem.requests.push_back({"", root.bytes, first, last});
      }
    std::string error;
    if (failed(problem.check(error)))
      return program.emitError("unsound memory problem: ") << error;
    placeBySize(problem);
    if (failed(problem.verify(error)))
      return program.emitError("illegal memory plan: ") << error;
    if (!roots.empty() && tier.end + problem.peak() > tier.peak) {
      tier.peak = tier.end + problem.peak();
      int64_t position = 0;
      problem.lowerBound(&position);
      tier.peakOperation = lifetimes.operationAt(position);
    }
    if (tier.tier == zero::Tier::device) // what no plan could be below: reported, and tested against the peak
      program->setAttr(placement::kLiveBytes, builder->getI64IntegerAttr(tier.end + problem.lowerBound()));
    for (auto [root, offset] : llvm::zip_equal(roots, problem.offsets)) {
      auto bucket = root->bucket ? lifetimes.bucketOf(root->bucket) : zero::BucketOp();
      const std::string name = bucket ? (bucket.getSymName() + ".gradients").str() : "s" + std::to_string(numSlices++);
      root->slice = FlatSymbolRefAttr::get(
          makeSlice(tier, root->loc, name, tier.end + offset, root->bytes, root->klass, /*persistent=*/false)
              .getSymNameAttr());
      if (bucket)
        bucket->setAttr(placement::storageAttribute(zero::Storage::gradients), root->slice);
    }
    return success();
  }

  void annotate(graph::ProgramOp program, const Lifetimes &lifetimes) {
    auto operandOf = [&](Value value) -> Attribute {
      const Lifetimes::Place &place = lifetimes.places.at(value);
      return plan::OperandAttr::get(&getContext(), plan::Access::write, lifetimes.roots[place.root].slice, place.offset,
                                    ArrayRef<int64_t>(place.strides), zero::storedType(value.getType()));
    };
    SmallVector<Attribute> inputs;
    for (BlockArgument argument : program.getBlock().getArguments())
      inputs.push_back(operandOf(argument));
    program->setAttr(placement::kInputs, builder->getArrayAttr(inputs));
    const StringAttr workspaceName = builder->getStringAttr(placement::kWorkspace),
                     resultsName = builder->getStringAttr(placement::kResults);
    for (auto [op, index] : lifetimes.workspaces) {
      const Lifetimes::Root &root = lifetimes.roots[index];
      auto bytes = RankedTensorType::get({root.bytes}, builder->getIntegerType(8, /*isSigned=*/false));
      op->setDiscardableAttr(workspaceName, plan::OperandAttr::get(&getContext(), plan::Access::write, root.slice,
                                                                   /*offset=*/0, ArrayRef<int64_t>(), bytes));
    }
    for (Operation &op : program.getBlock()) {
      SmallVector<Attribute> results;
      for (Value result : op.getResults())
        results.push_back(operandOf(result));
      if (!results.empty())
        op.setDiscardableAttr(resultsName, builder->getArrayAttr(results));
    }
  }

  void reportShortfall(const TierPlan &tier) {
    StringRef name = zero::stringifyTier(tier.tier);
    // For the tool's exit code; what is needed stands on the arenas.
    getOperation()->setAttr(placement::kShortTier,
                            plan::TierAttr::get(&getContext(), static_cast<plan::Tier>(tier.tier)));
    Location own = getOperation().getLoc(), loc = tier.peakOperation ? tier.peakOperation->getLoc() : own;
    Location user = loc == own ? locationOfUser(tier) : loc;
    InFlightDiagnostic error = emitError(user) << "the plan needs " << tier.peak << " bytes but --" << name
                                               << "-mem allows " << tier.budget;
    Diagnostic &note = error.attachNote() << showSize(uint64_t(tier.peak - tier.budget)) << " are missing of "
                                          << showSize(uint64_t(tier.peak));
    for (const TierPlan &other : tiers)
      if (other.tier != tier.tier && other.budget > 0 && other.peak > other.budget)
        note << ", and " << showSize(uint64_t(other.peak - other.budget)) << " of --" << zero::stringifyTier(other.tier)
             << "-mem";
    if (user != loc)
      note << (tier.peakOperation ? "; most is needed by the update of parameters of this node"
                                  : "; most of it is state of parameters of this node");
  }

  /// The update, and what outlives a step, are of no node. The location of one that uses the parameters that it is
  /// all about: of the bucket that the peak's operation works on, or else of the largest on the tier.
  Location locationOfUser(const TierPlan &tier) {
    StringRef bucket;
    if (tier.peakOperation)
      for (Value operand : tier.peakOperation->getOperands())
        if (auto storage = operand.getDefiningOp<zero::StorageOp>())
          bucket = storage.getBucket();
    int64_t largest = bucket.empty() ? 0 : std::numeric_limits<int64_t>::max();
    SmallVector<zero::StorageOp> all;
    getOperation().walk([&](zero::StorageOp storage) {
      all.push_back(storage);
      if (int64_t bytes = zero::bytesOf(storage.getType());
          zero::tierOf(storage.getType()) == tier.tier && bytes > largest) {
        largest = bytes;
        bucket = storage.getBucket();
      }
    });
    Location own = getOperation().getLoc();
    for (zero::StorageOp storage : all)
      for (Operation *user : storage->getUsers())
        if (storage.getBucket() == bucket && user->getLoc() != own)
          return user->getLoc();
    return own;
  }

  std::optional<OpBuilder> builder;
  plan::FreeNames names; ///< beside the module's symbols
  std::array<TierPlan, kNumTiers> tiers;
  FlatSymbolRefAttr lossSlice, normSlice;
  int64_t numSlices = 0;
};

} // namespace

std::unique_ptr<Pass> createPlanMemory(const ScheduleOptions &options) {
  return std::make_unique<PlanMemoryPass>(options);
}

} // namespace zc
