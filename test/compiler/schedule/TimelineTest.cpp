#include "compiler/schedule/Timeline.h"
#include "test/compiler/schedule/PlanSteps.h"

#include <gtest/gtest.h>

using namespace zc;

namespace {

/// A gather of 3 s, a product of 5 s that needs it, a product of 2 s that does not; the update, 4 s on the host, needs
/// the products, and the next gather needs the update. The loss is written by the last product.
planpb::Plan planOf(uint32_t accumulation) {
  planpb::Plan plan = emptyPlan(accumulation);
  plan.add_strings("step");
  addStep(*plan.mutable_micro(), planpb::COMM, 3);
  addStep(*plan.mutable_micro(), planpb::COMPUTE, 5);
  addStep(*plan.mutable_micro(), planpb::COMPUTE, 2);
  addStep(*plan.mutable_update(), planpb::HOST_COMPUTE, 4);
  addWait(*plan.mutable_micro(), 0, 1, planpb::HOST_COMPUTE, 0, 1);
  addWait(*plan.mutable_micro(), 1, 0, planpb::COMM, 0, 0);
  addWait(*plan.mutable_update(), 0, 0, planpb::COMPUTE, 1, 0);
  planpb::Operand &loss = *plan.mutable_micro()->mutable_steps(2)->add_operands();
  loss.set_access(planpb::WRITE);
  return plan;
}

std::vector<double> begins(const Timeline &timeline) {
  std::vector<double> all;
  for (const PlannedStep &step : timeline.steps)
    all.push_back(step.begin);
  return all;
}

TEST(Timeline, queuesAndWaits) {
  Timeline timeline = playTimeline(planOf(1));
  // gather, product, product, update: of three steps. The second gather waits for the first update, at 14.
  EXPECT_EQ(begins(timeline), (std::vector<double>{0, 3, 8, 10, 14, 17, 22, 24, 28, 31, 36, 38}));
  EXPECT_EQ(timeline.secondsPerStep, 14);
}

TEST(Timeline, nextStepStartsWithTheLoss) {
  planpb::Plan plan = planOf(1);
  plan.mutable_micro()->mutable_steps(0)->clear_waits();
  Timeline timeline = playTimeline(plan);
  // Nothing waits for the update now, but no step starts before the loss of the last one, at 10.
  EXPECT_EQ(timeline.steps[4].begin, 10);
  EXPECT_EQ(timeline.secondsPerStep, 10);
}

TEST(Timeline, gatherOfTheNextMicroStepRunsAhead) {
  Timeline timeline = playTimeline(planOf(2));
  // micro-step 2: its gather at 3 beside the products, its products from 10.
  EXPECT_EQ(begins(timeline),
            (std::vector<double>{0, 3, 8, 3, 10, 15, 17, 21, 24, 29, 24, 31, 36, 38, 42, 45, 50, 45, 52, 57, 59}));
  EXPECT_EQ(timeline.secondsPerStep, 21);
}

TEST(Timeline, manyMicroStepsAreNotAllPlayed) {
  Timeline timeline = playTimeline(planOf(1 << 20));
  EXPECT_EQ(timeline.microExecutions, 4u);
  // 3 s for the first gather, 7 s for the products of each micro-step, 4 s of update before the next gather.
  EXPECT_EQ(timeline.secondsPerStep, 7 + 7.0 * (1 << 20));
}

TEST(Timeline, waitsThatAreNoneAreIgnored) {
  planpb::Plan plan = planOf(1);
  addWait(*plan.mutable_micro(), 0, 0, planpb::NVME_READ, 7, 0);
  addWait(*plan.mutable_micro(), 0, 0, planpb::COMPUTE, 1, 0);
  EXPECT_EQ(playTimeline(plan).secondsPerStep, 14); // the verifier refuses such plans; playing them is safe
}

} // namespace
