//===- Tune.cpp - sizes that follow from the budgets -----------------------------------===//

#include "compiler/pipeline/Fit.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <vector>

using namespace zc;

namespace {

/// Host buffers are cut down to this, but not into more pieces of all parameters than kPieces: each is several steps.
constexpr int64_t kSmallestChunk = 8 << 10, kPieces = 4000;
/// Trials of one search; fewer for models of more operations than kUsualSize.
constexpr size_t kTrials = 7, kUsualSize = 2000;

/// All parameters of a rank in kPieces.
int64_t evenChunk(const ShardOptions &shard, const ModelSize &size) {
  return 4 * size.parameters / shard.worldSize / kPieces;
}

/// Bytes over a budget, if there is one; over those of each tier, and of all.
int64_t excess(int64_t need, int64_t budget) { return budget != 0 && need > budget ? need - budget : 0; }
Budgets excesses(const Budgets &needs, const Budgets &budgets) {
  return {excess(needs.device, budgets.device), excess(needs.host, budgets.host), excess(needs.nvme, budgets.nvme)};
}
int64_t excess(const Budgets &needs, const Budgets &budgets) {
  const Budgets over = excesses(needs, budgets);
  return over.device + over.host + over.nvme;
}

class Tuner {
public:
  Tuner(const Strategy &given, const ModelSize &size, const Trial &trial)
      : given(given), budgets(given.schedule.budgets), trial(trial),
        trials(std::clamp<size_t>(kTrials * kUsualSize / std::max<size_t>(1, size.operations), 1, kTrials)),
        smallestChunk(std::clamp(evenChunk(given.shard, size), kSmallestChunk, ShardOptions().chunk)) {}

  Result<Tuned> run(bool leastMemory) {
    // Orders are heuristic: now and then the least memory is not with the one that should take it.
    using Levels = std::vector<Overlap>;
    const Levels levels = leastMemory ? Levels{Overlap::none, Overlap::planned}
                                      : Levels{Overlap::slower, Overlap::planned, Overlap::none};
    Result<Tuned> best = runFrom(levels.front());
    for (size_t i = 1; i < levels.size() && best && !fits(best->needs, budgets); ++i) {
      Result<Tuned> other = runFrom(levels[i]);
      if (other && excess(other->needs, budgets) < excess(best->needs, budgets))
        best = std::move(other);
    }
    return best;
  }

private:
  /// One of the sizes that are tuned.
  using Size = int64_t *(*)(Strategy &);

  Result<Tuned> runFrom(Overlap overlap) {
    tuned = Tuned{given, {}};
    Strategy &chosen = tuned.strategy;
    const ShardOptions &shard = given.shard;
    chosen.schedule.overlap = overlap;
    bool selects = given.grad.checkpoint == CheckpointPolicy::selective && budgets.device != 0;
    bool gathers = (shard.stage == 3 && shard.dataDegree() > 1) || shard.offloadParam != Offload::none;
    bool resides = shard.residency < 0 && budgets.device != 0 && gathers && shard.quantizeWeights == WeightFormat::none;
    bool residesOnHost = shard.residency < 0 && budgets.host != 0 && shard.offloadParam == Offload::nvme;
    chosen.shard.resident = std::max<int64_t>(0, shard.residency);
    chosen.grad.save = selects ? 0 : -1;
    if (budgets == Budgets())
      return tuned;
    ZC_RETURN_IF_ERROR(attempt());
    // With none of them in the file there are no buffers for them: less may need more.
    bool cutsGradients = shard.offloadOptimizer == Offload::nvme && excess(tuned.needs.host, budgets.host) > 0;
    if (cutsGradients) {
      chosen.shard.gradientsOnHost = 0;
      ZC_RETURN_IF_ERROR(attempt());
    }
    if (shard.offloads() && budgets.host != 0)
      ZC_RETURN_IF_ERROR(smallerBuffers());
    if (selects && !fitsRecomputing())
      ZC_RETURN_IF_ERROR(leastRecomputation());
    // What these keep in memory may be what the file has no room for.
    if (resides && fitsMemory())
      ZC_RETURN_IF_ERROR(mostResidency([](Strategy &s) { return &s.shard.resident; }, &Budgets::device));
    if (residesOnHost && fitsMemory())
      ZC_RETURN_IF_ERROR(mostResidency([](Strategy &s) { return &s.shard.residentOnHost; }, &Budgets::host));
    if (cutsGradients && fitsMemory())
      ZC_RETURN_IF_ERROR(mostGradients());
    if (shard.offloadOptimizer == Offload::nvme && budgets.host != 0 && fits(tuned.needs, budgets))
      ZC_RETURN_IF_ERROR(restOfHost([](Strategy &s) { return &s.shard.readAhead; }));
    return tuned;
  }

  Status attempt() {
    Result<Planned> planned = trial(tuned.strategy);
    if (planned)
      tuned.needs = planned->needs;
    return planned.status();
  }

  /// Down to a quarter while that helps.
  Status smallerBuffers() {
    while (tuned.needs.host > budgets.host && tuned.strategy.shard.chunk / 4 >= smallestChunk) {
      Tuned before = tuned;
      tuned.strategy.shard.chunk /= 4;
      ZC_RETURN_IF_ERROR(attempt());
      if (tuned.needs.host >= before.needs.host) {
        tuned = before;
        break;
      }
    }
    return Status();
  }

  /// The device and the host, whatever is in the file.
  bool fitsMemory() const {
    Budgets memory = budgets;
    memory.nvme = 0;
    return fits(tuned.needs, memory);
  }

  /// As far as what is saved is there.
  bool fitsRecomputing() const {
    return given.shard.offloadActivation == Offload::nvme ? fits(tuned.needs, budgets) : fitsMemory();
  }

  /// No tier is over its budget by more than it was with `before`.
  bool isNoWorse(const Budgets &before) const {
    const Budgets now = excesses(tuned.needs, budgets), then = excesses(before, budgets);
    return now.device <= then.device && now.host <= then.host && now.nvme <= then.nvme;
  }

  /// From all down: the smallest `save` that fits, to a hundredth of what is needed. What is saved is counted without
  /// gradients, which take the place of activations in backward: where that says too little, all there is. What the
  /// device is short of is the first guess; where another tier is short, half of it.
  Status leastRecomputation() {
    const int64_t most = tuned.needs.device, shortfall = most - budgets.device;
    Tuned without = tuned;
    tuned.strategy.grad.save = most;
    ZC_RETURN_IF_ERROR(attempt());
    if (fitsRecomputing())
      return search([](Strategy &s) { return &s.grad.save; }, 0, most, shortfall > 0 ? shortfall : most / 2);
    Tuned counted = tuned;
    tuned.strategy.grad.save = -1;
    ZC_RETURN_IF_ERROR(attempt());
    if (fitsRecomputing())
      return Status();
    if (counted.needs.device <= tuned.needs.device)
      tuned = counted;
    if (without.needs.device < tuned.needs.device) // what is kept is offloaded
      tuned = without;
    return Status();
  }

  /// What the plan without leaves is enough for as much; more, because gathered buffers go.
  Status mostResidency(Size size, int64_t Budgets::*tier) {
    const int64_t budget = budgets.*tier;
    return search(size, budget, 0, budget - tuned.needs.*tier);
  }

  /// What the plan leaves of the host.
  Status restOfHost(Size size) {
    const int64_t now = *size(tuned.strategy), most = now + budgets.host - tuned.needs.host;
    return search(size, most, now, most);
  }

  /// As many as the host has room for; where the file has none for the others, beside smaller buffers.
  Status mostGradients() {
    const Size gradients = [](Strategy &s) { return &s.shard.gradientsOnHost; };
    ZC_RETURN_IF_ERROR(restOfHost(gradients));
    while (!fits(tuned.needs, budgets) && tuned.strategy.shard.chunk / 4 >= smallestChunk) {
      Tuned before = tuned;
      tuned.strategy.shard.chunk /= 4;
      ZC_RETURN_IF_ERROR(attempt());
      if (!isNoWorse(before.needs)) {
        tuned = before;
        break;
      }
      ZC_RETURN_IF_ERROR(restOfHost(gradients));
    }
    return Status();
  }

  /// Halves the way from `good`, which is what `tuned` has, to `bad`, beginning at `guess`; `tuned` stays at the last
  /// that is no worse. Ends where more changes nothing.
  Status search(Size size, int64_t bad, int64_t good, int64_t guess) {
    for (size_t i = 0; i < trials && good != bad; ++i) {
      Tuned before = tuned;
      *size(tuned.strategy) = guess;
      ZC_RETURN_IF_ERROR(attempt());
      if (isNoWorse(before.needs)) {
        if (guess > good && tuned.needs == before.needs)
          break; // all of it
        good = guess;
      } else {
        bad = guess;
        tuned = before;
      }
      guess = good + (bad - good) / 2;
    }
    return Status();
  }

  const Strategy &given;
  const Budgets &budgets;
  const Trial &trial;
  size_t trials;
  int64_t smallestChunk;
  Tuned tuned;
};

} // namespace

int64_t zc::usualChunk(const ShardOptions &given, const ModelSize &size) {
  return std::max(given.chunk, static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(evenChunk(given, size)))));
}

bool zc::fits(const Budgets &needs, const Budgets &budgets) { return excess(needs, budgets) == 0; }

Result<Tuned> zc::tune(const Strategy &given, const ModelSize &size, const Trial &trial, bool leastMemory) {
  return Tuner(given, size, trial).run(leastMemory);
}
