//===- ThreadBudget.h - how many threads the kernels of each queue run on ---------===//
#pragma once

#include "runtime/plan/Hazards.h"
#include "runtime/plan/plan.pb.h"

#include <array>

namespace zc {

/// Of a rank that has `threads` and computes on them: where all queues took all of them, copies and the host's update
/// would take cores from the kernels that everybody waits for. COMPUTE has all. Another queue whose work mostly falls
/// beside COMPUTE's has what it needs to be done in the time that COMPUTE takes, at least one; a queue that mostly
/// works alone has all. From the plan's waits and seconds (Step.seconds), so the same in every run. Budgets do not
/// change what is computed: kernels cut their work by `threads` all the same (kernels/cpu/Team.h).
std::array<int, kNumQueues> threadBudget(const planpb::Plan &plan, int threads);

} // namespace zc
