//===- ThreadSharesTest.cpp - who gets how many threads, on plans of a few seconds ------===//

#include "compiler/schedule/ThreadShares.h"
#include "runtime/plan/Walk.h"
#include "test/compiler/schedule/PlanSteps.h"

#include <gtest/gtest.h>

#include <map>

using namespace zc;

namespace {

using Shares = std::map<planpb::Queue, uint32_t>;

Shares sharesOf(planpb::Plan plan) {
  divideThreads(plan);
  Shares shares;
  for (const planpb::ThreadShare &share : plan.thread_shares())
    shares[share.queue()] = share.thousandths();
  return shares;
}

/// Two steps of a second on COMPUTE, the last of which writes the loss; between them a gradient goes to the host, whose
/// update of `update` seconds nobody waits for, or, with `computeWaits`, the second one.
planpb::Plan hostUpdate(double update, bool computeWaits) {
  planpb::Plan plan = emptyPlan(1);
  planpb::Section &micro = *plan.mutable_micro();
  addStep(micro, planpb::COMPUTE, 1);
  addStep(micro, planpb::D2H, 0.01);
  addWait(micro, 1, 0, planpb::COMPUTE, 0, 0);
  addStep(micro, planpb::HOST_COMPUTE, update);
  addWait(micro, 2, 0, planpb::D2H, 0, 0);
  addStep(micro, planpb::COMPUTE, 1);
  micro.mutable_steps(3)->add_operands()->set_access(planpb::WRITE);
  if (computeWaits)
    addWait(micro, 3, 0, planpb::HOST_COMPUTE, 0, 0);
  return plan;
}

/// `accumulation` micro-steps of 2 s on COMPUTE; the update, of 1 s on the host, needs the last one, and the next
/// step's micro-steps need it, or, where it is delayed, those of the step after.
planpb::Plan afterMicroSteps(uint32_t accumulation, bool delayed) {
  planpb::Plan plan = emptyPlan(accumulation);
  addStep(*plan.mutable_micro(), planpb::COMPUTE, 2);
  plan.mutable_micro()->mutable_steps(0)->add_operands()->set_access(planpb::WRITE);
  addStep(*plan.mutable_update(), planpb::HOST_COMPUTE, 1);
  addWait(*plan.mutable_update(), 0, 0, planpb::COMPUTE, 0, 0);
  addWait(*plan.mutable_micro(), 0, 1, planpb::HOST_COMPUTE, 0, delayed ? 2 : 1);
  return plan;
}

TEST(ThreadShares, workBesideComputeHasWhatItNeeds) {
  EXPECT_EQ(sharesOf(hostUpdate(0.1, false)), (Shares{{planpb::D2H, 5}, {planpb::HOST_COMPUTE, 50}}));
  EXPECT_EQ(sharesOf(hostUpdate(0.5, false)), (Shares{{planpb::D2H, 5}, {planpb::HOST_COMPUTE, 250}}));
  EXPECT_EQ(sharesOf(hostUpdate(1.0, false)), (Shares{{planpb::D2H, 5}, {planpb::HOST_COMPUTE, 500}}));
  EXPECT_EQ(sharesOf(hostUpdate(1e-9, false)).at(planpb::HOST_COMPUTE), 1u); // never none
}

TEST(ThreadShares, workThatTakesLongerThanComputeHasAll) {
  EXPECT_EQ(sharesOf(hostUpdate(2.5, false)), (Shares{{planpb::D2H, 5}}));
}

TEST(ThreadShares, workThatComputeWaitsForHasAll) { EXPECT_EQ(sharesOf(hostUpdate(0.1, true)), Shares()); }

TEST(ThreadShares, theUpdateAloneHasAllADelayedOneWhatItNeedsBesideTheNextStep) {
  EXPECT_EQ(sharesOf(afterMicroSteps(1, false)), Shares());
  EXPECT_EQ(sharesOf(afterMicroSteps(1, true)), (Shares{{planpb::HOST_COMPUTE, 500}}));
}

TEST(ThreadShares, allMicroStepsCountWhereAFewArePlayed) {
  EXPECT_EQ(sharesOf(afterMicroSteps(10, true)), (Shares{{planpb::HOST_COMPUTE, 50}}));
  EXPECT_EQ(sharesOf(afterMicroSteps(1 << 19, true)), (Shares{{planpb::HOST_COMPUTE, 1}})); // 4 are played
}

TEST(ThreadShares, plansWithoutSecondsAndPlansForGpusHaveNone) {
  EXPECT_EQ(sharesOf(hostUpdate(0, false)).count(planpb::HOST_COMPUTE), 0u);
  planpb::Plan cuda = hostUpdate(0.5, false);
  cuda.set_target(planpb::CUDA);
  EXPECT_EQ(sharesOf(cuda), Shares());
}

} // namespace
