//===- ThreadShares.h - how many threads the kernels of each queue run on ---------===//
#pragma once

#include "runtime/plan/Hazards.h"
#include "runtime/plan/plan.pb.h"

#include <array>

namespace zc {

constexpr uint32_t kAllThreads = 1000; ///< ThreadShare.thousandths of a queue that has no share of its own

/// By queue, in thousandths.
std::array<uint32_t, kNumQueues> threadSharesOf(const planpb::Plan &plan);

/// The threads of each queue's kernels, of a rank that has `threads` (>= 1): its share rounded, at least one. Kernels
/// have `threads` parts (kernels/cpu/Team.h), which a team does in rounds: of teams that need the same number of rounds
/// it is the smallest.
std::array<int, kNumQueues> teamsOf(const planpb::Plan &plan, int threads);

} // namespace zc
