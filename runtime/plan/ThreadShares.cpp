#include "runtime/plan/ThreadShares.h"

#include <algorithm>

namespace zc {

std::array<uint32_t, kNumQueues> threadSharesOf(const planpb::Plan &plan) {
  std::array<uint32_t, kNumQueues> shares;
  shares.fill(kAllThreads);
  for (const planpb::ThreadShare &share : plan.thread_shares())
    shares[static_cast<size_t>(share.queue())] = share.thousandths();
  return shares;
}

std::array<int, kNumQueues> teamsOf(const planpb::Plan &plan, int threads) {
  std::array<int, kNumQueues> teams{};
  const auto all = static_cast<int64_t>(threads);
  std::array<uint32_t, kNumQueues> shares = threadSharesOf(plan);
  for (unsigned queue = 0; queue < kNumQueues; ++queue) {
    const int64_t own = std::clamp<int64_t>((all * shares[queue] + kAllThreads / 2) / kAllThreads, 1, all);
    const int64_t rounds = (all + own - 1) / own;
    teams[queue] = static_cast<int>((all + rounds - 1) / rounds);
  }
  return teams;
}

} // namespace zc
