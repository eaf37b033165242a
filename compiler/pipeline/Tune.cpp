//===- Tune.cpp - sizes that follow from the budgets -----------------------------------===//

#include "compiler/pipeline/Fit.h"

#include <algorithm>
#include <vector>

using namespace zc;

namespace {

/// Host buffers are cut down to this, but not into more pieces of all parameters than kPieces: each is several steps.
constexpr int64_t kSmallestChunk = 8 << 10, kPieces = 4000;
/// Trials of one search; fewer for models of more operations than kUsualSize.
constexpr size_t kTrials = 7, kUsualSize = 2000;

/// Bytes over the budgets, on all tiers that have one.
uint64_t excess(const Budgets &needs, const Budgets &budgets) {
  auto over = [](uint64_t need, uint64_t budget) { return budget != 0 && need > budget ? need - budget : 0; };
  return over(needs.device, budgets.device) + over(needs.host, budgets.host) + over(needs.nvme, budgets.nvme);
}

class Tuner {
public:
  Tuner(const CompileOptions &options, const ModelSize &size, const Trial &trial)
      : options(options), trial(trial),
        trials(std::clamp<size_t>(kTrials * kUsualSize / std::max<size_t>(1, size.operations), 1, kTrials)),
        smallestChunk(std::max(kSmallestChunk, 4 * size.parameters / options.worldSize / kPieces)) {}

  Result<Tuned> run(bool leastMemory) {
    // Orders are heuristic: now and then the least memory is not with the one that should take it.
    using Levels = std::vector<Overlap>;
    const Levels levels = leastMemory ? Levels{Overlap::none, Overlap::planned}
                                      : Levels{Overlap::slower, Overlap::planned, Overlap::none};
    Result<Tuned> best = runFrom(levels.front());
    for (size_t i = 1; i < levels.size() && best && !fits(best->needs, options.budgets); ++i) {
      Result<Tuned> other = runFrom(levels[i]);
      if (other && excess(other->needs, options.budgets) < excess(best->needs, options.budgets))
        best = std::move(other);
    }
    return best;
  }

private:
  Result<Tuned> runFrom(Overlap overlap) {
    tuned = Tuned();
    tuned.tuning.overlap = overlap;
    const Budgets &budgets = options.budgets;
    bool offloads =
        options.offloadOptimizer != "none" || options.offloadParam != "none" || options.offloadActivation != "none";
    bool selects = options.checkpointActivations == "selective" && budgets.device != 0;
    bool gathers = (options.stage == 3 && options.worldSize > 1) || options.offloadParam != "none";
    bool resides = options.residency < 0 && budgets.device != 0 && gathers && options.quantizeWeights == "none";
    bool residesOnHost = options.residency < 0 && budgets.host != 0 && options.offloadParam == "nvme";
    tuned.tuning.resident = std::max<int64_t>(0, options.residency);
    tuned.tuning.save = selects ? 0 : -1;
    if (budgets == Budgets())
      return tuned;
    ZC_RETURN_IF_ERROR(attempt());
    if (offloads && budgets.host != 0)
      ZC_RETURN_IF_ERROR(smallerBuffers());
    if (selects && !fits(tuned.needs, budgets))
      ZC_RETURN_IF_ERROR(leastRecomputation());
    if (resides && fits(tuned.needs, budgets))
      ZC_RETURN_IF_ERROR(mostResidency(&Tuning::resident, &Budgets::device));
    if (residesOnHost && fits(tuned.needs, budgets))
      ZC_RETURN_IF_ERROR(mostResidency(&Tuning::residentOnHost, &Budgets::host));
    return tuned;
  }

  Status attempt() {
    Result<Budgets> needs = trial(options, tuned.tuning);
    if (needs)
      tuned.needs = *needs;
    return needs.status();
  }

  /// Down to a quarter while that helps.
  Status smallerBuffers() {
    while (tuned.needs.host > options.budgets.host && tuned.tuning.chunk / 4 >= smallestChunk) {
      Tuned before = tuned;
      tuned.tuning.chunk /= 4;
      ZC_RETURN_IF_ERROR(attempt());
      if (tuned.needs.host >= before.needs.host) {
        tuned = before;
        break;
      }
    }
    return Status();
  }

  /// From all down: the smallest `save` that fits, to a hundredth of what is needed.
  Status leastRecomputation() {
    auto most = static_cast<int64_t>(tuned.needs.device);
    int64_t shortfall = most - static_cast<int64_t>(options.budgets.device);
    Tuned without = tuned;
    tuned.tuning.save = most;
    ZC_RETURN_IF_ERROR(attempt());
    if (fits(tuned.needs, options.budgets))
      return search(&Tuning::save, 0, most, shortfall);
    if (without.needs.device < tuned.needs.device) // what is kept is offloaded
      tuned = without;
    return Status();
  }

  /// What the plan without leaves is enough for as much; more, because gathered buffers go.
  Status mostResidency(int64_t Tuning::*size, uint64_t Budgets::*tier) {
    auto budget = static_cast<int64_t>(options.budgets.*tier);
    return search(size, budget, 0, budget - static_cast<int64_t>(tuned.needs.*tier));
  }

  /// Halves the way from `good`, which fits and is what `tuned` has, to `bad`, beginning at `guess`; `tuned` stays at
  /// the last that fits. Ends where more changes nothing.
  Status search(int64_t Tuning::*size, int64_t bad, int64_t good, int64_t guess) {
    for (size_t i = 0; i < trials && good != bad; ++i) {
      Tuned before = tuned;
      tuned.tuning.*size = guess;
      ZC_RETURN_IF_ERROR(attempt());
      if (fits(tuned.needs, options.budgets)) {
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

  const CompileOptions &options;
  const Trial &trial;
  size_t trials;
  int64_t smallestChunk;
  Tuned tuned;
};

} // namespace

bool zc::fits(const Budgets &needs, const Budgets &budgets) { return excess(needs, budgets) == 0; }

Result<Tuned> zc::tune(const CompileOptions &options, const ModelSize &size, const Trial &trial, bool leastMemory) {
  return Tuner(options, size, trial).run(leastMemory);
}
