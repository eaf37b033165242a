//===- RunPlan.h - a plan's run on all ranks, for tests ---------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "test/runtime/Outcome.h"

#include <functional>

namespace zc::test {

/// All of them; `fake` runs what a GPU would be given, in another order each time.
inline constexpr DeviceKind kDevices[] = {DeviceKind::sync, DeviceKind::cpu, DeviceKind::fake};

inline StepContext contextOf(int64_t step) { return {step, 0, 0.01}; }

/// Runs `steps` steps on all ranks; `after` sees each rank's executor at the end.
Status runUnverified(const planpb::Plan &plan, DeviceKind device, int64_t steps, Outcome &outcome,
                     const std::function<void(RankExecutor &)> &after = {});

/// As it, of a plan that verifies. Errors: also those of verifyPlan.
Status runPlan(const planpb::Plan &plan, DeviceKind device, int64_t steps, Outcome &outcome,
               const std::function<void(RankExecutor &)> &after = {});

} // namespace zc::test
