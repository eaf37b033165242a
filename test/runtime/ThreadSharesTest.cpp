#include "runtime/plan/ThreadShares.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

#include <tuple>

namespace zc {
namespace {

TEST(ThreadShares, QueuesWithoutAShareHaveAllThreads) {
  for (int threads : teamsOf(test::tinyPlan(2, 2), 8))
    EXPECT_EQ(threads, 8);
}

TEST(ThreadShares, SharesAreRoundedToTeamsOfWhichNoneIsIdleInTheLastRound) {
  const std::vector<std::tuple<uint32_t, int, int>> rows = {
      // thousandths, threads, the team
      {50, 2, 1},   {250, 2, 1},  {250, 16, 4}, {500, 16, 8}, {50, 1, 1},  {1, 64, 1},  {1000, 7, 7},
      {440, 16, 6}, {430, 16, 6}, {700, 16, 8}, {999, 4, 4},  {749, 2, 1}, {750, 2, 2},
  };
  for (auto [thousandths, threads, team] : rows) {
    planpb::Plan plan;
    planpb::ThreadShare &share = *plan.add_thread_shares();
    share.set_queue(planpb::HOST_COMPUTE);
    share.set_thousandths(thousandths);
    const auto teams = teamsOf(plan, threads);
    EXPECT_EQ(teams[planpb::HOST_COMPUTE], team) << thousandths << " thousandths of " << threads;
    EXPECT_EQ(teams[planpb::COMPUTE], threads);
  }
}

} // namespace
} // namespace zc
