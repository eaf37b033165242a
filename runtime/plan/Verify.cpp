#include "runtime/plan/Verify.h"

#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

namespace zc::verify {

namespace {

Error raceError(const planpb::Plan &plan, const PlanWalk &walk, const WalkStep &here, uint32_t rank,
                const HazardTracker::Dependence &race) {
  static constexpr const char *kKinds[] = {"reads what is written by", "overwrites what is read by",
                                           "overwrites what is written by"};
  Error error = violation(523, "walk_c1",
                          describe(plan, here) + " " + kKinds[static_cast<size_t>(race.kind)] + " " +
                              describe(plan, walk.locate(race.step)) + " without waiting for it",
                          plan.strings(static_cast<int>(stepOf(plan, here).node())));
  error.note += ": slice \"" + plan.slices(static_cast<int>(race.slice)).name() + "\", arena byte " +
                std::to_string(race.begin) + ", rank " +
                (rank == PlanWalk::kAnyRank ? "0 to " + std::to_string(plan.world_size() - 1) : std::to_string(rank));
  return error;
}

} // namespace

Status verifyOrder(const planpb::Plan &plan) {
  constexpr uint64_t kWorkLimit = uint64_t(1) << 26; // a few seconds
  auto verifyWalk = [&](uint32_t rank, bool ordinary) {
    PlanWalk walk(plan, rank, ordinary);
    return walk.run(
        [&](const WalkStep &here, const HazardTracker::Findings &findings) -> Status {
          if (!findings.missing.empty()) // walk_c1
            return raceError(plan, walk, here, rank, findings.missing.front());
          if (rank != PlanWalk::kAnyRank && !findings.stale.empty()) // walk_c2
            return staleReadError(plan, walk, here, findings.stale.front(), Code::corrupt);
          return {};
        },
        kWorkLimit);
  };
  for (uint32_t rank : PlanWalk::ranksOf(plan)) {
    ZC_RETURN_IF_ERROR(verifyWalk(rank, false));
    if (plan.has_delay())
      ZC_RETURN_IF_ERROR(verifyWalk(rank, true));
  }
  return {};
}

} // namespace zc::verify

namespace zc {

Status verifyPlan(const planpb::Plan &plan) {
  ZC_RETURN_IF_ERROR(verify::verifyTables(plan));
  ZC_RETURN_IF_ERROR(verify::verifyModelState(plan));
  ZC_RETURN_IF_ERROR(verify::verifySteps(plan));
  ZC_RETURN_IF_ERROR(verify::verifyDelay(plan));
  ZC_RETURN_IF_ERROR(verify::verifyLossScale(plan));
  return verify::verifyOrder(plan);
}

} // namespace zc
