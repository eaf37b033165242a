//===- Auto.cpp - the fastest plan within the budgets -----------------------------------===//

#include "compiler/pipeline/Auto.h"
#include "compiler/pipeline/Candidates.h"
#include "compiler/pipeline/Driver.h"
#include "compiler/pipeline/Fit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstdio>
#include <optional>

using namespace zc;

namespace {

/// Where activations, optimizer and parameters are.
struct Placement {
  Offload activation, optimizer, param;
  bool operator==(const Placement &other) const {
    return activation == other.activation && optimizer == other.optimizer && param == other.param;
  }
};
constexpr Offload kNone = Offload::none, kHost = Offload::host, kNvme = Offload::nvme;
/// From what moves least to what moves most over the slowest link.
constexpr Placement kPlacements[] = {
    {kNone, kNone, kNone}, {kNone, kHost, kNone}, {kHost, kNone, kNone}, {kNone, kNone, kHost}, {kNone, kHost, kHost},
    {kHost, kHost, kNone}, {kHost, kHost, kHost}, {kNone, kNvme, kNone}, {kNone, kNone, kNvme}, {kNone, kNvme, kHost},
    {kHost, kNvme, kHost}, {kNone, kNvme, kNvme}, {kHost, kNvme, kNvme}, {kNvme, kNvme, kNvme}};

/// What `bytes` says of a tier.
int64_t &on(Offload tier, Budgets &bytes) {
  return tier == kNone ? bytes.device : tier == kHost ? bytes.host : bytes.nvme;
}

/// What may be chosen: that which no option says.
struct Freedom {
  bool stage, recomputation, offloadOptimizer, offloadParam, offloadActivation, bucketSize, model;

  explicit Freedom(const CompileOptions &options)
      : stage(!options.isGiven("zero-stage")), recomputation(!options.isGiven("checkpoint-activations")),
        offloadOptimizer(!options.isGiven("offload-optimizer") && !options.import.forwardOnly),
        offloadParam(!options.isGiven("offload-param")),
        offloadActivation(!options.isGiven("offload-activation") && !options.import.forwardOnly),
        bucketSize(!options.isGiven("bucket-size")),
        model(!options.isGiven("tensor-parallel") && !options.isGiven("mesh")) {}
};

class Choosing {
public:
  Choosing(const CompileOptions &given, const Freedom &freedom) : options(predicting(given)), freedom(freedom) {
    options.strategy.shard.microOrder = MicroOrder::rolled;
  }

  /// Errors: those of a compilation that no choice makes better.
  Status run() {
    Result<CompileResult> model = listParameters(options);
    if (!model)
      return model.error();
    state = model->state;
    const size_t patience = std::max<size_t>(kLeast, kAutoPatience / std::max<size_t>(1, model->operations));
    const int64_t bucketSize = options.strategy.shard.bucketSize;
    ShardOptions &shard = options.strategy.shard;
    for (int64_t ranks : modelRanks()) {
      shard.model = ranks;
      shard.bucketSize = bucketSize;
      most = tried + patience;
      ZC_RETURN_IF_ERROR(tryBuckets());
      if (best)
        break;
    }
    return Status::success();
  }

  std::optional<Strategy> best;
  double seconds = 0; ///< of the best
  size_t tried = 0, fitting = 0;
  size_t tooSmall = 0; ///< whose budgets do not hold the model's state: not tried

private:
  /// Ranks that share samples, as few as fit: a step then has fewer samples, so it is chosen where nothing else fits.
  std::vector<int64_t> modelRanks() const {
    const ShardOptions &shard = options.strategy.shard;
    std::vector<int64_t> counts{shard.model};
    const int64_t perNode = shard.perNode();
    for (int64_t ranks = 2; freedom.model && ranks <= perNode; ++ranks)
      if (perNode % ranks == 0)
        counts.push_back(ranks);
    return counts;
  }

  /// Smaller buckets come last: they are more steps in every placement.
  Status tryBuckets() {
    int64_t &bucketSize = options.strategy.shard.bucketSize;
    ZC_RETURN_IF_ERROR(tryPlacements());
    for (int64_t bytes : kSmallerBuckets) {
      if (best || !freedom.bucketSize || bytes >= bucketSize)
        continue;
      bucketSize = bytes;
      ZC_RETURN_IF_ERROR(tryPlacements());
    }
    return Status::success();
  }

  Status tryPlacements() {
    for (const Placement &placement : placements()) {
      for (int64_t stage : stages())
        for (CheckpointPolicy recomputation : recomputations()) {
          CompileOptions candidate = options;
          candidate.strategy.grad.checkpoint = recomputation;
          ShardOptions &shard = candidate.strategy.shard;
          shard.stage = stage;
          shard.offloadActivation = placement.activation;
          shard.offloadOptimizer = placement.optimizer;
          shard.offloadParam = placement.param;
          if (validate(shard).ok() && tried < most)
            ZC_RETURN_IF_ERROR(attempt(candidate));
        }
      if (best)
        break;
    }
    return Status::success();
  }

  /// Those of kPlacements, with what is given in its place.
  std::vector<Placement> placements() const {
    const ShardOptions &shard = options.strategy.shard;
    std::vector<Placement> all;
    for (Placement placement : kPlacements) {
      if (!freedom.offloadActivation)
        placement.activation = shard.offloadActivation;
      if (!freedom.offloadOptimizer)
        placement.optimizer = shard.offloadOptimizer;
      if (!freedom.offloadParam)
        placement.param = shard.offloadParam;
      if (!llvm::is_contained(all, placement))
        all.push_back(placement);
    }
    return all;
  }

  std::vector<int64_t> stages() const {
    if (!freedom.stage || options.strategy.shard.dataDegree() == 1)
      return {options.strategy.shard.stage};
    return {0, 1, 2, 3};
  }

  std::vector<CheckpointPolicy> recomputations() const {
    if (!freedom.recomputation || options.import.forwardOnly)
      return {options.strategy.grad.checkpoint};
    if (options.strategy.shard.partitionActivations) // is about what recomputation keeps
      return {CheckpointPolicy::selective, CheckpointPolicy::block};
    return {CheckpointPolicy::none, CheckpointPolicy::selective, CheckpointPolicy::block};
  }

  /// Is there room for the model's state, whatever is recomputed, buffered or overlapped? At least the ratio of the
  /// optimizer's is where it is offloaded; parameters may be resident on any tier above theirs.
  bool holdsState(const Strategy &strategy) const {
    const ShardOptions &shard = strategy.shard;
    Budgets budgets = strategy.schedule.budgets, needs;
    auto share = [&](int64_t bytes, int64_t stage) {
      return bytes / (shard.model * (shard.stage >= stage ? shard.dataDegree() : 1));
    };
    const double ratio = shard.offloadOptimizer == kNone ? 1 : shard.offloadRatio;
    on(shard.offloadOptimizer, needs) = static_cast<int64_t>(ratio * static_cast<double>(share(state.optimizer, 1)));
    if (!fits(needs, budgets))
      return false;
    int64_t left = share(state.parameters, 3);
    for (Offload tier : {kNone, kHost, kNvme}) {
      if (tier != shard.offloadParam && (tier > shard.offloadParam || shard.residency == 0))
        continue;
      if (on(tier, budgets) == 0)
        return true;
      left -= on(tier, budgets) - on(tier, needs);
    }
    return left <= 0;
  }

  Status attempt(const CompileOptions &candidate) {
    if (!holdsState(candidate.strategy)) {
      ++tooSmall;
      return Status::success();
    }
    Result<CompileResult> compiled = compile(candidate);
    ++tried;
    if (!compiled)
      return compiled.error().code == Code::budget || compiled.error().code == Code::unsupported
                 ? Status::success()
                 : Status(compiled.error());
    ++fitting;
    if (!best || compiled->predictedSeconds < seconds) {
      best = candidate.strategy;
      seconds = compiled->predictedSeconds;
    }
    return Status::success();
  }

  /// Plans that are tried of a model of any size.
  static constexpr size_t kLeast = 16;

  size_t most = kLeast;
  CompileOptions options;
  Freedom freedom;
  StateSize state;
};

/// Where the stage is open, the first that takes what is offloaded.
void leastStage(CompileOptions &options) {
  ShardOptions &shard = options.strategy.shard;
  while (!options.isGiven("zero-stage") && shard.stage < 3 && !validate(shard).ok())
    ++shard.stage;
}

} // namespace

void zc::leaveOpen(CompileOptions &options) {
  options.offloadIsOpen = !options.isGiven("offload-optimizer");
  options.stageIsOpen = !options.isGiven("zero-stage");
  options.recomputationIsOpen = !options.isGiven("checkpoint-activations");
  options.given["auto"]; // a command that compiles the same says it too
}

Status zc::takeBudget(CompileOptions &options, std::vector<std::string> &notes) {
  int64_t &device = options.strategy.schedule.budgets.device;
  if (device != 0)
    return {};
  if (!options.isGiven("machine") || !options.strategy.schedule.machine.preset)
    return optionError("--auto chooses within a budget: --device-mem says what a rank has of its device, or --machine "
                       "names its GPU, as h100",
                       "device-mem");
  const MachinePreset &machine = *options.strategy.schedule.machine.preset;
  device = machine.memory;
  notes.push_back(llvm::formatv("--auto plans for the {0} GB of an {1}; --device-mem says otherwise",
                                device / 1'000'000'000, machine.name));
  return {};
}

Result<AutoChoice> zc::chooseFastest(const CompileOptions &options) {
  const Freedom freedom(options);
  Choosing choosing(options, freedom);
  ZC_RETURN_IF_ERROR(choosing.run());
  AutoChoice choice{options, "chose"};
  choice.options.stageIsOpen = false;
  if (!choosing.best) { // its message says how much is missing
    leastStage(choice.options);
    choice.text = llvm::formatv("none of {0} plans tried fits", choosing.tried + choosing.tooSmall);
    return choice;
  }
  auto take = [&](bool isFree, const Choice &taken) {
    if (!isFree)
      return;
    apply(taken, choice.options.strategy);
    choice.text += " " + flagOf(taken);
  };
  const ShardOptions &best = choosing.best->shard, &shard = choice.options.strategy.shard;
  take(best.model != shard.model, ModelRanks{best.model});
  take(freedom.stage && shard.dataDegree() > 1, ZeroStage{best.stage});
  take(freedom.recomputation && !options.import.forwardOnly, choosing.best->grad.checkpoint);
  auto place = [&](bool isFree, Offload ShardOptions::*field) { take(isFree, Placed{field, best.*field}); };
  place(freedom.offloadOptimizer, &ShardOptions::offloadOptimizer);
  place(freedom.offloadParam, &ShardOptions::offloadParam);
  place(freedom.offloadActivation, &ShardOptions::offloadActivation);
  take(best.bucketSize != shard.bucketSize, BucketSize{best.bucketSize});
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", choosing.seconds);
  choice.text += llvm::formatv(": {0} s per step predicted; {1} of {2} plans tried fit", seconds, choosing.fitting,
                               choosing.tried);
  if (choosing.tooSmall > 0)
    choice.text += llvm::formatv(", {0} more cannot hold the model's state", choosing.tooSmall);
  if (shard.model != options.strategy.shard.model)
    choice.text +=
        llvm::formatv("; without ranks that share samples none did: a step has those of {0}, not of {1} ranks",
                      shard.dataDegree(), shard.worldSize);
  return choice;
}
