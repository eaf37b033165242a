#include "runtime/exec/ThreadBudget.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

#include <tuple>

namespace zc {
namespace {

using test::PlanBuilder;

/// Two steps of a second on COMPUTE; between them a gradient goes to the host, whose update of `update` seconds nobody
/// waits for, or, with `computeWaits`, the second one.
planpb::Plan hostUpdate(double update, bool computeWaits) {
  PlanBuilder b(1, 1);
  uint32_t type = b.type(planpb::F32, {16});
  uint32_t onDevice = b.slice("gradient", 64, false), other = b.slice("other", 64, false);
  uint32_t onHost = b.slice("copy", 64, false, -1, planpb::HOST);
  auto seconds = [](planpb::Step &step, double value) -> planpb::Step & {
    step.set_seconds(value);
    return step;
  };
  auto waits = [](planpb::Step &step, planpb::Queue queue) {
    planpb::Wait &wait = *step.add_waits();
    wait.set_section(0);
    wait.set_queue(queue);
    wait.set_ordinal(0);
  };
  using P = PlanBuilder;
  seconds(b.step(0, planpb::COMPUTE, "mix", 0, {P::operand(onDevice, type, planpb::WRITE)}), 1);
  planpb::Step &copy = b.step(0, planpb::D2H, "d2h", 1,
                              {P::operand(onDevice, type, planpb::READ), P::operand(onHost, type, planpb::WRITE)});
  waits(seconds(copy, 0.01), planpb::COMPUTE);
  planpb::Step &host = b.step(0, planpb::HOST_COMPUTE, "mix", 0, {P::operand(onHost, type, planpb::READ_WRITE)});
  waits(seconds(host, update), planpb::D2H);
  planpb::Step &last = b.step(0, planpb::COMPUTE, "mix", 0, {P::operand(other, type, planpb::WRITE)});
  seconds(last, 1);
  if (computeWaits)
    waits(last, planpb::HOST_COMPUTE);
  return b.plan;
}

TEST(ThreadBudget, WorkBesideComputeGetsWhatItNeeds) {
  const std::vector<std::tuple<double, int, int>> rows = {
      {0.1, 2, 1}, {0.5, 2, 1}, {0.5, 16, 4}, {1.0, 16, 8}, {0.1, 1, 1}};
  for (auto [update, threads, host] : rows) {
    auto budget = threadBudget(hostUpdate(update, false), threads);
    EXPECT_EQ(budget[planpb::COMPUTE], threads);
    EXPECT_EQ(budget[planpb::HOST_COMPUTE], host) << update << " seconds of " << threads << " threads";
    EXPECT_EQ(budget[planpb::D2H], 1);
  }
}

TEST(ThreadBudget, WorkThatComputeWaitsForGetsAll) {
  auto budget = threadBudget(hostUpdate(0.1, true), 16);
  EXPECT_EQ(budget[planpb::HOST_COMPUTE], 16);
  EXPECT_EQ(budget[planpb::D2H], 16);
}

TEST(ThreadBudget, PlansWithoutTimesHaveNoLimits) {
  for (int threads : threadBudget(test::tinyPlan(2, 2), 8))
    EXPECT_EQ(threads, 8);
}

} // namespace
} // namespace zc
