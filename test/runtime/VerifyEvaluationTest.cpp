#include "runtime/plan/Verify.h"
#include "runtime/plan/Walk.h"
#include "test/runtime/Damage.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

TEST(Verify, eval_c2_an_evaluation_is_verified_as_a_plan_by_itself) {
  for (uint32_t accumulation : {1u, 2u}) {
    Plan plan = test::tinyPlan(2, accumulation), without = plan;
    addEvaluation(plan);
    Status status = verifyPlan(plan);
    ASSERT_TRUE(status.ok()) << render(status.error());
    EXPECT_EQ(plan.micro().SerializeAsString(), without.micro().SerializeAsString());
    EXPECT_EQ(plan.update().SerializeAsString(), without.update().SerializeAsString());
    for (const planpb::Step &step : plan.eval().steps())
      for (const planpb::Wait &wait : step.waits())
        EXPECT_EQ(wait.section(), kEvalSection);

    Plan racy = plan;
    racy.mutable_eval()->mutable_steps(1)->clear_waits();
    EXPECT_EQ(verifyPlan(racy).error().note.substr(0, 16), "violates walk_c1");
    Plan stale = plan;
    stale.mutable_eval()->mutable_steps()->DeleteSubrange(0, 1);
    EXPECT_FALSE(verifyPlan(stale).ok());
    Plan others = plan;
    others.mutable_eval()->mutable_steps(1)->mutable_waits(0)->set_section(0);
    EXPECT_EQ(verifyPlan(others).error().note.substr(0, 16), "violates wait_c1");
    EXPECT_NE(verifyPlan(others).error().note.find("eval_c2"), std::string::npos);
  }
}

TEST(Verify, output_c3_only_the_loss_is_a_likelihood) {
  Plan plan = test::tinyPlan();
  addEvaluation(plan);
  plan.mutable_outputs(0)->set_likelihood(true);
  EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  planpb::Output &other = *plan.add_outputs();
  other.set_name("other");
  other.set_type(plan.outputs(0).type());
  other.set_likelihood(true);
  for (planpb::OutputKind kind : {planpb::VALUE, planpb::LOSS_WEIGHT}) {
    other.set_kind(kind);
    Status status = verifyPlan(plan);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().number, 591);
    EXPECT_EQ(status.error().where, "other");
    EXPECT_NE(status.error().note.find("output_c3"), std::string::npos) << render(status.error());
  }
}
