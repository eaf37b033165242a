//===- Fit.cpp - the cheapest change that fits ------------------------------------------===//
//
// Changes of one flag are tried first, in order of what they cost in time. Where none fits, the change of everything
// says whether anything can; if so, changes of several flags follow, the cheapest first, without those of which the
// single changes say that they are not enough. Where that takes too many trials, the answer is found from the other
// end: the change of everything, less what it does not need.
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Fit.h"
#include "base/Size.h"
#include "compiler/pipeline/Candidates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace zc;

namespace {

/// One option at another value.
struct Change {
  Choice choice;
  double cost;       ///< in time of a step, compared with other changes
  bool isUp = false; ///< to a higher tier, for the sake of a lower one
};

/// Changes of different flags.
struct Proposal {
  std::vector<const Change *> changes;
  double cost = 0;
};

struct TierField {
  const char *name;
  int64_t Budgets::*bytes;
};
constexpr TierField kBudgets[] = {{"device", &Budgets::device}, {"host", &Budgets::host}, {"nvme", &Budgets::nvme}};

class Search {
public:
  Search(const Strategy &given, const ModelSize &size, const Trial &trial)
      : strategy(given), size(size), trial([this, &trial](const Strategy &tried) {
          Result<Planned> planned = trial(tried);
          spent += std::max(this->size.operations, planned ? planned->operations : 0);
          return planned;
        }) {
    strategy.shard.residency = 0; // comes back by itself where there is room
    collectChanges();
  }

  std::string run() {
    base = needsOf({});
    std::vector<Proposal> singles;
    for (const std::vector<Change> &flag : flags)
      for (const Change &change : flag)
        singles.push_back({{&change}, change.cost});
    sortByCost(singles);
    for (const Proposal &single : singles) {
      if (spent > kFitPatience / 2)
        break;
      if (attempt(single))
        return describe(single);
    }
    std::optional<Proposal> everything = fittingExtreme();
    // Buffers for files take host memory: more may then be too much, and less enough.
    if (!everything && strategy.schedule.budgets.host == 0 && strategy.schedule.budgets.nvme == 0)
      return describeSmallest();
    std::vector<Proposal> several =
        combinations(everything ? everything->cost : std::numeric_limits<double>::infinity());
    for (const Proposal &proposal : several) {
      if (spent > kFitPatience)
        break;
      if (attempt(proposal))
        return describe(proposal);
    }
    return everything && attempt(*everything) ? describe(reduced(*everything)) : describeSmallest();
  }

  std::string smallestBudget() {
    strategy.schedule.budgets = Budgets();
    strategy.schedule.budgets.device = 1; // so that all is done that these flags allow
    base = needsOf({});
    if (!base)
      return {};
    for (CheckpointPolicy recomputation : {CheckpointPolicy::block, CheckpointPolicy::selective})
      attempt(extreme(Offload::host, recomputation));
    std::string text = "smallest feasible --device-mem: " + std::to_string(base->device) + " bytes with these flags";
    if (smallest && smallest->second.device < base->device)
      text += ", " + std::to_string(smallest->second.device) + " with " + textOf(smallest->first);
    return text + "\n";
  }

private:
  //===-- what can be changed -------------------------------------------------===//

  void add(std::vector<Change> changes) {
    if (!changes.empty())
      flags.push_back(std::move(changes));
  }

  /// Costs order the changes; they are not seconds. Stages 1 and 2 send what stage 0 does, stage 3 half as much again;
  /// block recomputation is another forward; links are slower than the device, files slower than links.
  void collectChanges() {
    std::vector<Change> stages;
    constexpr double stageCost[] = {0, 0.5, 1, 4};
    for (int64_t stage = strategy.shard.stage + 1; stage <= 3 && strategy.shard.dataDegree() > 1; ++stage)
      stages.push_back({ZeroStage{stage}, stageCost[stage] - stageCost[strategy.shard.stage]});
    add(std::move(stages));
    if (strategy.schedule.prefetch != 0)
      add({{NoPrefetch(), 1.5}});
    std::vector<Change> buckets;
    for (int64_t bytes : kSmallerBuckets)
      if (2 * bytes <= strategy.shard.bucketSize)
        buckets.push_back({BucketSize{bytes}, 2 + 0.4 * static_cast<double>(buckets.size())});
    add(std::move(buckets));
    if (!strategy.grad.forwardOnly)
      addTraining();
    addOffload(&ShardOptions::offloadParam, 10);
  }

  void addTraining() {
    std::vector<Change> recomputation;
    if (strategy.grad.checkpoint == CheckpointPolicy::none)
      recomputation.push_back({CheckpointPolicy::selective, 3});
    if (strategy.grad.checkpoint != CheckpointPolicy::block)
      recomputation.push_back({CheckpointPolicy::block, 5});
    add(std::move(recomputation));
    addOffload(&ShardOptions::offloadActivation, 8);
    addOffload(&ShardOptions::offloadOptimizer, 9);
  }

  /// To a lower tier; to a higher one where a lower one may be what is short.
  void addOffload(Offload ShardOptions::*where, double cost) {
    std::vector<Change> changes;
    const Offload present = strategy.shard.*where;
    for (Offload tier : {Offload::none, Offload::host, Offload::nvme}) {
      bool isUp = tier < present;
      if (tier == present || (isUp && strategy.schedule.budgets.host == 0 && strategy.schedule.budgets.nvme == 0))
        continue;
      double step = isUp ? 1 : cost * ((tier == Offload::nvme ? 3 : 1) - (present == Offload::host ? 1 : 0));
      changes.push_back({Placed{where, tier}, step, isUp});
    }
    add(std::move(changes));
  }

  //===-- trying --------------------------------------------------------------===//

  static void sortByCost(std::vector<Proposal> &proposals) {
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Proposal &a, const Proposal &b) { return a.cost < b.cost; });
  }

  std::optional<Budgets> needsOf(const Proposal &proposal) {
    Strategy changed = strategy;
    for (const Change *change : proposal.changes)
      apply(change->choice, changed);
    if (!validate(changed.shard).ok())
      return std::nullopt;
    Result<Tuned> tuned = tune(changed, size, trial, /*leastMemory=*/true);
    if (!tuned)
      return std::nullopt; // a combination that some pass refuses
    if (tuned->needs.device != 0)
      return tuned->needs;
    Result<Planned> planned = trial(tuned->strategy);
    return planned ? std::optional(planned->needs) : std::nullopt;
  }

  /// Remembers what single changes need, and what needs the least of the device within the other budgets.
  bool attempt(const Proposal &proposal) {
    last = needsOf(proposal);
    if (!last)
      return false;
    if (proposal.changes.size() == 1)
      alone[proposal.changes.front()] = *last;
    Budgets others = strategy.schedule.budgets;
    others.device = 0;
    if (fits(*last, others) && (!smallest || last->device < smallest->second.device))
      smallest = {proposal, *last};
    return fits(*last, strategy.schedule.budgets);
  }

  /// The strongest change of every flag, with tiers down to the host, then to files. Of recomputation either may be the
  /// stronger: blocks are not always where the bytes are.
  std::optional<Proposal> fittingExtreme() {
    for (Offload lowest : {Offload::host, Offload::nvme})
      for (CheckpointPolicy recomputation : {CheckpointPolicy::block, CheckpointPolicy::selective}) {
        Proposal proposal = extreme(lowest, recomputation);
        if (spent < 2 * kFitPatience && attempt(proposal))
          return proposal;
      }
    return std::nullopt;
  }

  Proposal extreme(Offload lowest, CheckpointPolicy recomputation) const {
    auto isOf = [&](const Choice &choice) {
      if (const auto *policy = std::get_if<CheckpointPolicy>(&choice))
        return *policy == recomputation;
      const auto *placed = std::get_if<Placed>(&choice);
      return !placed || placed->tier != Offload::nvme || lowest == Offload::nvme;
    };
    Proposal proposal;
    for (const std::vector<Change> &flag : flags) {
      const Change *strongest = nullptr;
      for (const Change &change : flag)
        if (!change.isUp && isOf(change.choice))
          strongest = &change;
      if (!strongest)
        continue;
      proposal.changes.push_back(strongest);
      proposal.cost += strongest->cost;
    }
    return proposal;
  }

  /// All changes of two and more flags that cost less than `limit` and may be enough, the cheapest first.
  std::vector<Proposal> combinations(double limit) {
    std::vector<Proposal> all{{}};
    for (const std::vector<Change> &flag : flags) {
      size_t before = all.size();
      for (const Change &change : flag)
        for (size_t i = 0; i < before; ++i) {
          Proposal longer = all[i];
          longer.changes.push_back(&change);
          longer.cost += change.cost;
          if (longer.cost < limit)
            all.push_back(std::move(longer));
        }
    }
    llvm::erase_if(all, [&](const Proposal &p) { return p.changes.size() < 2 || !mayFit(p); });
    sortByCost(all);
    return all;
  }

  /// As if what changes save alone they saved together, and a quarter more. Nothing follows from one thing leaving a
  /// tier for two that do: what they share stays as long as either does.
  bool mayFit(const Proposal &proposal) {
    if (!base || llvm::count_if(proposal.changes, [](const Change *change) { return change->isUp; }) > 1)
      return true;
    for (const TierField &tier : kBudgets) {
      double budget = static_cast<double>(strategy.schedule.budgets.*tier.bytes);
      double need = static_cast<double>((*base).*tier.bytes), saved = 0;
      for (const Change *change : proposal.changes)
        if (auto found = alone.find(change); found != alone.end())
          saved += need - static_cast<double>(found->second.*tier.bytes);
        else
          return true; // not possible alone: nothing is known
      if (budget > 0 && need - 1.25 * std::max(saved, 0.0) - std::min(saved, 0.0) * 0.5 > budget)
        return false;
    }
    return true;
  }

  /// Without the changes that are not needed, the dearest first.
  Proposal reduced(Proposal proposal) {
    std::vector<const Change *> dearest = proposal.changes;
    std::stable_sort(dearest.begin(), dearest.end(),
                     [](const Change *a, const Change *b) { return a->cost > b->cost; });
    std::optional<Budgets> needs = last;
    for (const Change *change : dearest) {
      if (spent > 2 * kFitPatience)
        break;
      Proposal less = proposal;
      llvm::erase(less.changes, change);
      if (attempt(less)) {
        proposal = less;
        needs = last;
      }
    }
    last = needs;
    return proposal;
  }

  //===-- telling -------------------------------------------------------------===//

  static std::string textOf(const Proposal &proposal) {
    std::string text;
    for (const Change *change : proposal.changes)
      text += (text.empty() ? "" : " ") + flagOf(change->choice);
    return text;
  }

  std::string describe(const Proposal &proposal) {
    std::string needs;
    for (const TierField &tier : kBudgets)
      if (int64_t need = (*last).*tier.bytes; need != 0) {
        int64_t budget = strategy.schedule.budgets.*tier.bytes;
        needs += (needs.empty() ? "" : ", ") + std::string(tier.name) + " " + showSize(uint64_t(need)) +
                 (budget ? " of " + showSize(uint64_t(budget)) : "");
      }
    return textOf(proposal) + " fits (" + needs + ")";
  }

  std::string describeSmallest() {
    std::string text = "no flags were found that fit";
    if (smallest)
      text += "; the smallest device memory found is " + std::to_string(smallest->second.device) + " bytes, with " +
              textOf(smallest->first);
    return text + "; a smaller batch or more ranks need less";
  }

  Strategy strategy;
  ModelSize size;
  size_t spent = 0; ///< of kFitPatience
  Trial trial;
  std::vector<std::vector<Change>> flags; ///< of one flag each, the strongest last
  std::optional<Budgets> base, last;      ///< of the flags as given; of the last attempt
  std::map<const Change *, Budgets> alone;
  std::optional<std::pair<Proposal, Budgets>> smallest;
};

} // namespace

std::string zc::cheapestFit(const Strategy &given, const ModelSize &size, const Trial &trial) {
  return Search(given, size, trial).run();
}

std::string zc::smallestBudget(const Strategy &given, const ModelSize &size, const Trial &trial) {
  return Search(given, size, trial).smallestBudget();
}
