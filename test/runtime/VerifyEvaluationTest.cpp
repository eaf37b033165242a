#include "runtime/plan/Walk.h"
#include "test/runtime/VerifyNegative.h"

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

const Negative kEvaluationNegatives[] = {
    {"plan_c7_outputs_of_training", [](Plan &p) { p.add_outputs()->set_name("y"); }},
    {"plan_c7_update", [](Plan &p) { p.set_forward_only(true); }},
    {"output_c1_type",
     [](Plan &p) {
       p.set_forward_only(true);
       p.add_outputs()->set_type(1000);
     }},
    {"output_c1_kind", [](Plan &p) { p.add_outputs()->set_kind(static_cast<planpb::OutputKind>(9)); }},
    {"output_c1_loss_is_no_scalar", [](Plan &p) { p.add_outputs()->set_kind(planpb::LOSS); }},
    {"output_c1_weight_alone",
     [](Plan &p) {
       test::PlanBuilder b(1, 1);
       b.plan.Swap(&p);
       uint32_t scalar = b.type(planpb::F32, {});
       b.plan.Swap(&p);
       planpb::Output *weight = p.add_outputs();
       weight->set_type(scalar);
       weight->set_kind(planpb::LOSS_WEIGHT);
     }},
    {"plan_c7_outputs_without_evaluation",
     [](Plan &p) {
       addEvaluation(p);
       p.clear_eval();
     }},
    {"plan_c7_evaluation_without_outputs",
     [](Plan &p) {
       addEvaluation(p);
       p.clear_outputs();
     }},
    {"eval_c1_no_loss",
     [](Plan &p) {
       addEvaluation(p);
       p.mutable_outputs(0)->set_kind(planpb::VALUE);
     }},
    {"eval_c3_writes_parameters",
     [](Plan &p) {
       addEvaluation(p);
       p.mutable_eval()->mutable_steps(1)->mutable_operands(2)->set_slice(0);
       p.mutable_eval()->mutable_steps(1)->mutable_operands(0)->set_slice(3);
     }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(Evaluation, kEvaluationNegatives);
} // namespace zc::test

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
