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
                std::to_string(race.begin) + ", rank " + std::to_string(rank);
  return error;
}

} // namespace

Status verifyOrder(const planpb::Plan &plan) {
  constexpr uint64_t kWorkLimit = uint64_t(1) << 26; // a few seconds
  bool dependsOnRank = false;
  for (const planpb::Section *section : {&plan.micro(), &plan.update()})
    for (const planpb::Step &step : section->steps())
      for (const planpb::Operand &operand : step.operands())
        dependsOnRank |= operand.rank_stride() != 0;
  for (uint32_t rank : {0u, plan.world_size() - 1}) {
    if (rank > 0 && !dependsOnRank)
      break;
    PlanWalk walk(plan, rank);
    ZC_RETURN_IF_ERROR(walk.run(
        [&](const WalkStep &here, const HazardTracker::Findings &findings) -> Status {
          if (!findings.missing.empty()) // walk_c1
            return raceError(plan, walk, here, rank, findings.missing.front());
          if (!findings.stale.empty()) // walk_c2
            return staleReadError(plan, walk, here, findings.stale.front(), Code::corrupt);
          return {};
        },
        kWorkLimit));
    if (plan.world_size() == 1)
      break;
  }
  return {};
}

} // namespace zc::verify

namespace zc {

Status verifyPlan(const planpb::Plan &plan) {
  ZC_RETURN_IF_ERROR(verify::verifyTables(plan));
  ZC_RETURN_IF_ERROR(verify::verifyModelState(plan));
  ZC_RETURN_IF_ERROR(verify::verifySteps(plan));
  return verify::verifyOrder(plan);
}

} // namespace zc
