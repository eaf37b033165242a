#include "runtime/plan/PlanFile.h"
#include "test/runtime/VerifyNegative.h"

#include <cmath>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

const Negative kTablesNegatives[] = {
    {"plan_c2_axis_zero", [](Plan &p) { p.mutable_mesh(1)->set_size(0); }},
    {"plan_c2_axis_huge", [](Plan &p) { p.mutable_mesh(1)->set_size(1u << 31); }},
    {"plan_c2_world_huge", [](Plan &p) { p.mutable_mesh(0)->set_size(1u << 16); }},
    {"plan_c2_axis_without_name", [](Plan &p) { p.mutable_mesh(0)->clear_name(); }},
    {"plan_c2_axis_twice", [](Plan &p) { p.mutable_mesh(0)->set_name("local"); }},
    {"plan_c2_axis_kind", [](Plan &p) { p.mutable_mesh(0)->set_kind(static_cast<planpb::AxisKind>(2)); }},
    {"plan_c2_axes",
     [](Plan &p) {
       for (int i = 0; i < 7; ++i)
         p.add_mesh()->CopyFrom(p.mesh(0)), p.mutable_mesh(i + 2)->set_name("axis" + std::to_string(i));
     }},
    {"plan_c2_stage", [](Plan &p) { p.set_zero_stage(4); }},
    {"plan_c2_accumulation", [](Plan &p) { p.set_accumulation(0); }},
    {"plan_c2_vertical",
     [](Plan &p) {
       p.set_vertical(true);
       p.set_accumulation(1);
     }},
    {"plan_c2_precision", [](Plan &p) { p.set_precision("fp31"); }},
    {"plan_c3_string", [](Plan &p) { p.add_strings("\xC3\x28"); }},
    {"plan_c3_slice_name", [](Plan &p) { p.mutable_slices(0)->set_name("\xFF"); }},
    {"plan_c3_long", [](Plan &p) { p.add_strings(std::string(70000, 'x')); }},
    {"plan_c5_nan", [](Plan &p) { p.mutable_optimizer()->set_lr(NAN); }},
    {"plan_c5_schedule", [](Plan &p) { p.mutable_optimizer()->set_lr_schedule("linear:warmup=-1"); }},
    {"plan_c6_peak", [](Plan &p) { p.mutable_report()->mutable_device()->set_peak_bytes(1); }},
    {"share_c1_queue", [](Plan &p) { addThreadShare(p, static_cast<planpb::Queue>(7), 500); }},
    {"share_c1_twice",
     [](Plan &p) {
       addThreadShare(p, planpb::D2H, 500);
       addThreadShare(p, planpb::D2H, 500);
     }},
    {"share_c1_order",
     [](Plan &p) {
       addThreadShare(p, planpb::HOST_COMPUTE, 500);
       addThreadShare(p, planpb::COMM, 500);
     }},
    {"share_c1_none", [](Plan &p) { addThreadShare(p, planpb::COMM, 0); }},
    {"share_c1_more_than_all", [](Plan &p) { addThreadShare(p, planpb::COMM, 1001); }},
    {"type_c1_unknown", [](Plan &p) { p.mutable_types(0)->set_type(static_cast<planpb::Type>(77)); }},
    {"type_c2_negative", [](Plan &p) { p.mutable_types(0)->set_dims(0, -128); }},
    {"type_c2_product_wraps",
     [](Plan &p) {
       p.mutable_types(0)->add_dims(int64_t(1) << 33);
       p.mutable_types(0)->add_dims(int64_t(1) << 33);
     }},
    {"type_c2_zero_hides_overflow",
     [](Plan &p) {
       p.mutable_types(0)->set_dims(0, 0);
       p.mutable_types(0)->add_dims(int64_t(1) << 62);
     }},
    {"type_c2_rank", [](Plan &p) { p.mutable_types(0)->mutable_dims()->Resize(65, 1); }},
    {"arena_c1_tier", [](Plan &p) { p.mutable_arenas(0)->set_tier(static_cast<planpb::Tier>(9)); }},
    {"arena_c1_bytes", [](Plan &p) { p.mutable_arenas(0)->set_bytes(kHuge); }},
    {"arena_c2_twice", [](Plan &p) { p.add_arenas(); }},
    {"slice_c1_arena", [](Plan &p) { p.mutable_slices(0)->set_arena(1); }},
    {"slice_c1_class", [](Plan &p) { p.mutable_slices(0)->set_klass(static_cast<planpb::Class>(-1)); }},
    {"slice_c2_misaligned", [](Plan &p) { p.mutable_slices(3)->set_offset(p.slices(3).offset() + 64); }},
    {"slice_c3_end", [](Plan &p) { p.mutable_arenas(0)->set_bytes(p.arenas(0).bytes() - 1); }},
    {"slice_c3_wraps", [](Plan &p) { p.mutable_slices(0)->set_bytes(kHuge); }},
    {"slice_c3_offset_wraps", [](Plan &p) { p.mutable_slices(0)->set_offset(kHuge / 256 * 256); }},
    {"slice_c4_transient_over_persistent", [](Plan &p) { p.mutable_slices(5)->set_offset(p.slices(1).offset()); }},
    {"slice_c4_persistent_over_transient",
     [](Plan &p) {
       p.mutable_slices(3)->set_offset(0); // x, before the parameters in memory now
       p.mutable_slices(0)->set_offset(256);
     }},
    {"input_c1_type", [](Plan &p) { p.mutable_inputs(0)->set_type(1000); }},
    {"input_c3_nothing", [](Plan &p) { p.mutable_inputs(0)->mutable_range(); }},
    {"input_c3_reversed",
     [](Plan &p) {
       p.mutable_inputs(0)->mutable_range()->set_limit(4);
       p.mutable_inputs(0)->mutable_range()->set_lowest(5);
     }},
    {"metrics_c1_weighted", [](Plan &p) { p.mutable_metrics()->set_weighted(true); }},
    {"metrics_c1_index", [](Plan &p) { p.mutable_metrics()->set_loss_slice(99); }},
    {"metrics_c1_transient", [](Plan &p) { p.mutable_metrics()->set_loss_slice(3); }},
    {"metrics_c1_norm", [](Plan &p) { p.mutable_metrics()->set_grad_norm_slice(-2); }},
    {"slice_c2_misaligned_on_host",
     [](Plan &p) {
       int slice = addSlice(p, 8192, planpb::HOST);
       p.mutable_slices(slice)->set_offset(256);
       p.mutable_arenas(1)->set_bytes(65536);
     }},
    {"slice_c3_reservation_on_nvme",
     [](Plan &p) {
       addSlice(p, 100, planpb::NVME);
       p.mutable_arenas(1)->set_bytes(100);
     }},
    {"metrics_c1_on_nvme",
     [](Plan &p) { p.mutable_metrics()->set_loss_slice(static_cast<uint32_t>(addSlice(p, 8, planpb::NVME))); }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(Tables, kTablesNegatives);
} // namespace zc::test

TEST(Verify, plan_c1_format) {
  Plan plan = test::tinyPlan();
  plan.set_format(kPlanFormat + 1);
  EXPECT_EQ(verifyPlan(plan).error().code, Code::mismatch);
}
