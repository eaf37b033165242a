#include "runtime/plan/Verify.h"

#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

namespace zc::verify {

namespace {

Error raceError(const planpb::Plan &plan, const PlanWalk &walk, const WalkStep &here,
                const HazardTracker::Dependence &race) {
  static constexpr const char *kKinds[] = {"reads what is written by", "overwrites what is read by",
                                           "overwrites what is written by"};
  Error error = violation(523, "walk_c1",
                          describe(plan, here) + " " + kKinds[static_cast<size_t>(race.kind)] + " " +
                              describe(plan, walk.locate(race.step)) + " without waiting for it",
                          plan.strings(static_cast<int>(stepOf(plan, here).node())));
  error.note +=
      ": slice \"" + plan.slices(static_cast<int>(race.slice)).name() + "\", arena byte " + std::to_string(race.begin);
  return error;
}

} // namespace

Status verifyOrder(const planpb::Plan &plan) {
  constexpr uint64_t kWorkLimit = uint64_t(1) << 26; // a few seconds
  auto verifyWalk = [&](bool ordinary) {
    PlanWalk walk(plan, ordinary);
    return walk.run(
        [&](const WalkStep &here, const HazardTracker::Findings &findings) -> Status {
          if (!findings.missing.empty()) // walk_c1
            return raceError(plan, walk, here, findings.missing.front());
          if (!findings.stale.empty()) // walk_c2
            return staleReadError(plan, walk, here, findings.stale.front(), Code::corrupt);
          return {};
        },
        kWorkLimit);
  };
  ZC_RETURN_IF_ERROR(verifyWalk(false));
  return plan.has_delay() ? verifyWalk(true) : Status();
}

} // namespace zc::verify

namespace zc {

Status verifyPlan(const planpb::Plan &plan) {
  ZC_RETURN_IF_ERROR(verify::verifyTables(plan));
  ZC_RETURN_IF_ERROR(verify::verifyModelState(plan));
  ZC_RETURN_IF_ERROR(verify::verifySteps(plan));
  ZC_RETURN_IF_ERROR(verify::verifyDelay(plan));
  ZC_RETURN_IF_ERROR(verify::verifyLossScale(plan));
  ZC_RETURN_IF_ERROR(verify::verifyOrder(plan));
  return verify::verifyEvaluation(plan);
}

} // namespace zc
