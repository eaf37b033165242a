#include "test/runtime/VerifyNegative.h"

#include <cmath>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

const Negative kUpdateNegatives[] = {
    {"delay_c1_no_master", [](Plan &p) { p.mutable_delay(); }},
    {"delay_c1_step",
     [](Plan &p) {
       delay(p);
       p.mutable_delay()->set_after(~uint64_t(0));
     }},
    {"scale_c1_not_half", [](Plan &p) { scaleLoss(p), p.set_precision("bf16"); }},
    {"scale_c1_half_without", [](Plan &p) { p.set_precision("fp16"); }},
    {"scale_c1_no_norm", [](Plan &p) { scaleLoss(p), p.mutable_metrics()->set_grad_norm_slice(-1); }},
    {"scale_c2_minimum", [](Plan &p) { scaleLoss(p, 1, 0); }},
    {"scale_c2_below_the_minimum", [](Plan &p) { scaleLoss(p, 1, 2); }},
    {"scale_c2_not_a_number", [](Plan &p) { scaleLoss(p, std::nan("")); }},
    {"scale_c2_infinite", [](Plan &p) { scaleLoss(p, HUGE_VAL); }},
    {"scale_c2_hysteresis", [](Plan &p) { scaleLoss(p, 2, 1, 0); }},
    {"scale_c3_not_divided",
     [](Plan &p) {
       scaleLoss(p);
       update(p, 0)->set_kernel(addString(p, "norm_finish"));
     }},
    {"scale_c3_divided_by_nothing", [](Plan &p) { update(p, 0)->add_attributes()->set_name(addString(p, "scaled")); }},
    {"scale_c3_scaled_by_nothing", [](Plan &p) { update(p, 0)->set_kernel(addString(p, "loss_scale")); }},
    {"delay_c2_not_delayed", [](Plan &p) { update(p, 0)->set_publishes(true); }},
    {"delay_c2_micro",
     [](Plan &p) {
       delay(p);
       micro(p, 0)->set_publishes(true);
     }},
    {"delay_c2_writes_the_loss",
     [](Plan &p) {
       delay(p);
       for (planpb::Step &step : *p.mutable_update()->mutable_steps())
         for (const planpb::Operand &operand : step.operands())
           step.set_publishes(step.publishes() || operand.slice() == p.metrics().loss_slice());
     }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(Update, kUpdateNegatives);
} // namespace zc::test

TEST(Verify, ALossScaleIsSound) {
  for (double initial : {1.0, 65536.0, 0x1p127}) {
    Plan plan = test::tinyPlan();
    scaleLoss(plan, initial);
    EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  }
}
