#include "runtime/plan/Verify.h"
#include "runtime/plan/Walk.h"
#include "test/runtime/Damage.h"
#include "test/runtime/TestPlan.h"

#include <array>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

/// The plan verifies; with `damage` done to it, it violates the constraint that the name begins with.
struct Negative {
  const char *name;
  std::function<void(Plan &)> damage;
};
void PrintTo(const Negative &negative, std::ostream *out) { *out << negative.name; }

constexpr uint64_t kHuge = ~uint64_t(0) - 100;

/// Of the operands of seeThrough's step.
const StridedView kAll0{0, 0, {128}, {1}}, kAll1{1, 0, {128}, {1}}, kAll2{2, 0, {128}, {1}}, kLoss{3, 0, {}, {}};

const Negative kNegatives[] = {
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
    {"parameter_c1_type", [](Plan &p) { p.mutable_parameters(0)->set_type(1000); }},
    {"parameter_c1_role", [](Plan &p) { p.mutable_parameters(0)->set_role(static_cast<planpb::Role>(5)); }},
    {"parameter_c2_inline", [](Plan &p) { p.mutable_parameters(0)->set_inline_("abc"); }},
    {"parameter_c2_none", [](Plan &p) { p.mutable_parameters(0)->clear_inline_(); }},
    {"parameter_c2_source_bytes",
     [](Plan &p) {
       p.mutable_parameters(0)->mutable_source()->set_file("w.bin");
       p.mutable_parameters(0)->mutable_source()->set_bytes(399);
     }},
    {"parameter_c2_source_leaves",
     [](Plan &p) {
       p.mutable_parameters(0)->mutable_source()->set_file("a/../../w.bin");
       p.mutable_parameters(0)->mutable_source()->set_bytes(400);
     }},
    {"parameter_c3_bucket", [](Plan &p) { p.mutable_parameters(0)->set_bucket(1); }},
    {"parameter_c3_slice_and_bucket", [](Plan &p) { p.mutable_parameters(0)->set_slice(0); }},
    {"parameter_c3_buffer_not_persistent", [](Plan &p) { makeBuffer(p, false, 400); }},
    {"parameter_c3_buffer_bytes", [](Plan &p) { makeBuffer(p, true, 404); }},
    {"parameter_c4_role", [](Plan &p) { p.mutable_parameters(0)->set_role(planpb::FROZEN); }},
    {"parameter_c5_misaligned", [](Plan &p) { p.mutable_parameters(0)->set_offset(10); }},
    {"parameter_c5_end", [](Plan &p) { p.mutable_parameters(0)->set_offset(64); }},
    {"parameter_c5_wraps", [](Plan &p) { p.mutable_parameters(0)->set_offset(kHuge / 64 * 64); }},
    {"parameter_c6_overlap", [](Plan &p) { addSecondParameter(p, 64); }},
    {"parameter_c7_not_all",
     [](Plan &p) {
       p.mutable_parameters(0)->mutable_part()->set_whole("w");
       p.mutable_parameters(0)->mutable_part()->set_type(p.parameters(0).type());
       p.mutable_parameters(0)->mutable_part()->set_first(1);
     }},
    {"parameter_c7_type",
     [](Plan &p) {
       p.mutable_parameters(0)->mutable_part()->set_whole("w");
       p.mutable_parameters(0)->mutable_part()->set_type(9999);
     }},
    {"parameter_c8_no_model_axis",
     [](Plan &p) {
       p.mutable_parameters(0)->mutable_cut()->set_type(p.parameters(0).type());
       p.mutable_parameters(0)->mutable_cut()->set_groups(1);
     }},
    {"bucket_c6_no_axis", [](Plan &p) { p.mutable_buckets(0)->add_axes(2); }},
    {"bucket_c6_order",
     [](Plan &p) {
       p.mutable_buckets(0)->set_axes(0, 1);
       p.mutable_buckets(0)->set_axes(1, 0);
     }},
    {"bucket_c1_shard", [](Plan &p) { p.mutable_buckets(0)->set_padded(64); }},
    {"bucket_c1_zero", [](Plan &p) { p.mutable_buckets(0)->set_padded(0); }},
    {"bucket_c2_used", [](Plan &p) { p.mutable_buckets(0)->set_used(99); }},
    {"bucket_c3_slice_bytes", [](Plan &p) { p.mutable_buckets(0)->set_parameters_sharded(true); }},
    {"bucket_c3_slice_index", [](Plan &p) { p.mutable_buckets(0)->set_moment1_slice(100); }},
    {"bucket_c3_parameters_not_persistent", [](Plan &p) { p.mutable_buckets(0)->set_parameter_slice(3); }},
    {"bucket_c4_no_gradient", [](Plan &p) { p.mutable_buckets(0)->set_gradient_slice(-1); }},
    {"bucket_c4_master_of_f32_on_its_tier",
     [](Plan &p) { p.mutable_buckets(0)->set_master_slice(addSlice(p, 512, planpb::DEVICE)); }},
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
    {"scale_c3_divided_by_nothing",
     [](Plan &p) { update(p, 0)->add_attributes()->set_name(addString(p, "scaled")); }},
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
    {"bucket_c7_of_f32", [](Plan &p) { p.mutable_buckets(0)->set_gradient_type(planpb::F32); }},
    {"bucket_c5_shared", [](Plan &p) { p.mutable_buckets(0)->set_moment1_slice(0); }},
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
    {"metrics_c1_weighted", [](Plan &p) { p.mutable_metrics()->set_weighted(true); }},
    {"metrics_c1_index", [](Plan &p) { p.mutable_metrics()->set_loss_slice(99); }},
    {"metrics_c1_transient", [](Plan &p) { p.mutable_metrics()->set_loss_slice(3); }},
    {"metrics_c1_norm", [](Plan &p) { p.mutable_metrics()->set_grad_norm_slice(-2); }},
    {"step_c1_kernel", [](Plan &p) { micro(p, 1)->set_kernel(1000); }},
    {"step_c1_node", [](Plan &p) { micro(p, 1)->set_node(1000); }},
    {"step_c1_queue", [](Plan &p) { micro(p, 1)->set_queue(static_cast<planpb::Queue>(7)); }},
    {"step_c2_inputs", [](Plan &p) { micro(p, 1)->set_inputs(5); }},
    {"step_c2_input_written", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_access(planpb::READ_WRITE); }},
    {"step_c2_output_read", [](Plan &p) { micro(p, 1)->mutable_operands(3)->set_access(planpb::READ); }},
    {"step_c3_name", [](Plan &p) { micro(p, 0)->mutable_attributes(0)->set_name(1000); }},
    {"step_c3_twice", [](Plan &p) { *micro(p, 0)->add_attributes() = micro(p, 0)->attributes(0); }},
    {"step_c6_rolled",
     [](Plan &p) {
       p.add_strings("micro");
       planpb::Attribute *attribute = micro(p, 1)->add_attributes();
       attribute->set_name(static_cast<uint32_t>(p.strings_size() - 1));
       attribute->set_integer(0);
     }},
    {"step_c6_none_such",
     [](Plan &p) {
       p.set_vertical(true);
       p.set_accumulation(2);
       p.add_strings("micro");
       planpb::Attribute *attribute = micro(p, 1)->add_attributes();
       attribute->set_name(static_cast<uint32_t>(p.strings_size() - 1));
       attribute->set_integer(2);
     }},
    {"step_c5_negative", [](Plan &p) { micro(p, 0)->set_seconds(-1); }},
    {"step_c5_nan", [](Plan &p) { micro(p, 0)->set_seconds(std::nan("")); }},
    {"step_c5_flops", [](Plan &p) { micro(p, 0)->set_flops(-1); }},
    {"step_c4_operands",
     [](Plan &p) {
       for (int i = 0; i < 5000; ++i)
         *micro(p, 1)->add_operands() = micro(p, 1)->operands(3);
     }},
    {"step_c4_attributes",
     [](Plan &p) {
       for (int i = 0; i < 300; ++i)
         micro(p, 1)->add_attributes();
     }},
    {"operand_c1_slice", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_slice(1000); }},
    {"operand_c1_type", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_type(1000); }},
    {"operand_c1_access", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_access(static_cast<planpb::Access>(3)); }},
    {"operand_c1_strides", [](Plan &p) { setStrides(micro(p, 1)->mutable_operands(0), {0, 0, 0}); }},
    {"operand_c2_end", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_offset(4); }},
    {"operand_c2_last_rank", [](Plan &p) { setStrides(update(p, 0)->mutable_operands(1), {0, 260}); }},
    {"operand_c2_wraps", [](Plan &p) { micro(p, 1)->mutable_operands(0)->set_offset(kHuge); }},
    {"operand_c2_stride_wraps", [](Plan &p) { setStrides(micro(p, 1)->mutable_operands(0), {0, kHuge}); }},
    {"operand_c3_offset",
     [](Plan &p) {
       micro(p, 3)->mutable_operands(0)->set_slice(3);
       micro(p, 3)->mutable_operands(0)->set_offset(2);
     }},
    {"operand_c4_output_over_input",
     [](Plan &p) {
       micro(p, 1)->mutable_operands(3)->set_slice(3);
       micro(p, 1)->mutable_operands(3)->set_offset(8);
     }},
    {"operand_c4_outputs_meet", [](Plan &p) { micro(p, 1)->mutable_operands(3)->set_slice(4); }},
    {"operand_c4_not_the_own_part", [](Plan &p) { setStrides(update(p, 1)->mutable_operands(0), {}); }},
    {"view_c1_no_list", [](Plan &p) { addViewWords(p, {0, 0}); }},
    {"view_c1_a_number",
     [](Plan &p) {
       addViewWords(p, {});
       micro(p, 1)->mutable_attributes(0)->set_integer(0);
     }},
    {"view_c1_rank", [](Plan &p) { addViewWords(p, {0, 0, int64_t(1) << 62}); }},
    {"view_c1_negative_stride", [](Plan &p) { seeThrough(p, {{0, 127, {128}, {-1}}, kAll1, kAll2, kLoss}); }},
    {"view_c1_negative_size", [](Plan &p) { seeThrough(p, {{0, 0, {-128}, {1}}, kAll1, kAll2, kLoss}); }},
    {"view_c1_an_operand_twice", [](Plan &p) { seeThrough(p, {kAll0, kAll0, kAll1, kAll2, kLoss}); }},
    {"view_c1_not_an_operand", [](Plan &p) { seeThrough(p, {kAll0}); }},
    {"view_c1_no_such_operand", [](Plan &p) { seeThrough(p, {kAll0, kAll1, {4, 0, {128}, {1}}, kLoss}); }},
    {"view_c1_too_many", [](Plan &p) { seeThrough(p, std::vector<StridedView>(1000, kAll0)); }},
    {"view_c2_begins_behind", [](Plan &p) { seeThrough(p, {{0, 129, {0}, {1}}, kAll1, kAll2, kLoss}); }},
    {"view_c2_ends_behind", [](Plan &p) { seeThrough(p, {{0, 1, {4, 32}, {32, 1}}, kAll1, kAll2, kLoss}); }},
    {"view_c2_stride", [](Plan &p) { seeThrough(p, {{0, 0, {4, 32}, {33, 1}}, kAll1, kAll2, kLoss}); }},
    {"view_c2_of_a_result", [](Plan &p) { seeThrough(p, {kAll0, kAll1, {2, 0, {4, 32}, {33, 1}}, kLoss}); }},
    {"view_c2_wraps",
     [](Plan &p) {
       seeThrough(p, {{0, 0, {(int64_t(1) << 32) + 1, 2}, {int64_t(1) << 32, 1}}, kAll1, kAll2, kLoss});
     }},
    {"view_c2_offset_wraps", [](Plan &p) { seeThrough(p, {{0, INT64_MAX, {2}, {INT64_MAX}}, kAll1, kAll2, kLoss}); }},
    {"view_c3_overlaps", [](Plan &p) { seeThrough(p, {{0, 0, {4, 32}, {31, 1}}, kAll1, kAll2, kLoss}); }},
    {"view_c3_broadcasts", [](Plan &p) { seeThrough(p, {{0, 0, {4, 32}, {0, 1}}, kAll1, kAll2, kLoss}); }},
    {"view_c4_a_part", [](Plan &p) { seeThrough(p, {kAll0, kAll1, {2, 0, {64}, {2}}, kLoss}); }},
    {"view_c4_nothing", [](Plan &p) { seeThrough(p, {kAll0, kAll1, kAll2}); }},
    {"view_c4_meet",
     [](Plan &p) { seeThrough(p, {kAll0, kAll1, {2, 0, {64}, {1}}, {2, 63, {64}, {1}}, kLoss}); }},
    {"view_c4_interleave",
     [](Plan &p) { seeThrough(p, {kAll0, kAll1, {2, 0, {32, 2}, {4, 1}}, {2, 1, {32, 2}, {4, 2}}, kLoss}); }},
    {"workspace_c1_persistent", [](Plan &p) { worksIn(p, planpb::DEVICE, /*persistent=*/true); }},
    {"workspace_c1_tier", [](Plan &p) { worksIn(p, planpb::HOST); }},
    {"workspace_c1_access", [](Plan &p) { worksIn(p, planpb::DEVICE)->set_access(planpb::READ_WRITE); }},
    {"workspace_c1_elements",
     [](Plan &p) {
       planpb::Operand *workspace = worksIn(p, planpb::DEVICE);
       p.mutable_types(static_cast<int>(workspace->type()))->set_type(planpb::I8);
     }},
    {"workspace_c2_over_an_operand", [](Plan &p) { worksIn(p, planpb::DEVICE)->set_slice(3); }},
    {"operand_c2_workspace", [](Plan &p) { worksIn(p, planpb::DEVICE)->set_offset(1); }},
    {"wait_c1_section", [](Plan &p) { micro(p, 1)->add_waits()->set_section(2); }},
    {"wait_c1_queue", [](Plan &p) { micro(p, 1)->add_waits()->set_queue(static_cast<planpb::Queue>(9)); }},
    {"wait_c1_ordinal", [](Plan &p) { micro(p, 1)->add_waits()->set_ordinal(2); }},
    {"wait_c1_distance", [](Plan &p) { micro(p, 1)->add_waits()->set_distance(1u << 30); }},
    {"wait_c2_itself", [](Plan &p) { micro(p, 1)->add_waits(); }},
    {"wait_c2_cycle", [](Plan &p) { micro(p, 1)->add_waits()->set_queue(planpb::COMM); }},
    {"wait_c2_update_from_micro", [](Plan &p) { micro(p, 1)->add_waits()->set_section(1); }},
    {"collective_c1_queue", [](Plan &p) {
       *p.mutable_update()->add_steps() = p.update().steps(2);
       update(p, 3)->clear_waits();
       update(p, 3)->set_queue(planpb::COMPUTE);
     }},
    {"collective_c1_operands", [](Plan &p) { *micro(p, 2)->add_operands() = micro(p, 1)->operands(3); }},
    {"collective_c2_sizes", [](Plan &p) { micro(p, 2)->mutable_operands(0)->set_type(1); }},
    {"collective_c2_type", [](Plan &p) { update(p, 2)->mutable_operands(0)->set_type(4), p.mutable_types(4)->clear_dims(),
                                             p.mutable_types(4)->set_type(planpb::I32),
                                             p.mutable_parameters(0)->set_type(3), p.mutable_buckets(0)->set_used(1),
                                             p.mutable_parameters(0)->set_inline_("1234"); }},
    {"collective_c3_scale", [](Plan &p) { micro(p, 2)->mutable_attributes(0)->set_real(INFINITY); }},
    {"collective_c3_accumulate", [](Plan &p) { micro(p, 2)->mutable_operands(1)->set_access(planpb::WRITE); }},
    {"collective_c3_traffic", [](Plan &p) { micro(p, 2)->mutable_attributes(2)->set_text("all"); }},
    {"step_c7_no_axis", [](Plan &p) { setAxes(micro(p, 2), {2}); }},
    {"step_c7_twice", [](Plan &p) { setAxes(micro(p, 2), {1, 1}); }},
    {"collective_c2_sizes_along_an_axis", [](Plan &p) { setAxes(micro(p, 2), {0}); }},
    {"operand_c4_all_to_all_in_place",
     [](Plan &p) {
       p.add_strings("all_to_all");
       micro(p, 2)->set_kernel(static_cast<uint32_t>(p.strings_size() - 1));
       *micro(p, 2)->mutable_operands(1) = micro(p, 2)->operands(0);
       micro(p, 2)->mutable_operands(1)->set_access(planpb::WRITE);
     }},
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
    {"tier_c1_compute_on_host",
     [](Plan &p) { micro(p, 1)->mutable_operands(3)->set_slice(static_cast<uint32_t>(addSlice(p, 4, planpb::HOST))); }},
    {"tier_c1_comm_on_nvme",
     [](Plan &p) { update(p, 2)->mutable_operands(0)->set_slice(static_cast<uint32_t>(addSlice(p, 8, planpb::NVME))); }},
    {"tier_c2_kernel_on_a_copy_queue",
     [](Plan &p) {
       auto host = static_cast<uint32_t>(addSlice(p, 64, planpb::HOST));
       addCopy(p, "copy", planpb::D2H, 0, host, 64);
     }},
    {"copy_c1_other_queue",
     [](Plan &p) {
       auto host = static_cast<uint32_t>(addSlice(p, 64, planpb::HOST));
       addCopy(p, "d2h", planpb::COMM, 0, host, 64);
     }},
    {"copy_c1_read_write",
     [](Plan &p) {
       auto host = static_cast<uint32_t>(addSlice(p, 64, planpb::HOST));
       addCopy(p, "d2h", planpb::D2H, 0, host, 64).mutable_operands(1)->set_access(planpb::READ_WRITE);
     }},
    {"copy_c2_direction",
     [](Plan &p) {
       auto host = static_cast<uint32_t>(addSlice(p, 64, planpb::HOST));
       addCopy(p, "d2h", planpb::D2H, host, 0, 64);
     }},
    {"copy_c2_bytes",
     [](Plan &p) {
       auto host = static_cast<uint32_t>(addSlice(p, 64, planpb::HOST));
       addCopy(p, "d2h", planpb::D2H, 0, host, 64).mutable_operands(1)->set_type(2);
     }},
    {"copy_c3_begins_inside_a_block", [](Plan &p) { addSpill(p, 8192, 4096, 512); }},
    {"copy_c3_ends_inside_a_slice", [](Plan &p) { addSpill(p, 8192, 5000); }},
    {"copy_c3_stride", [](Plan &p) { setStrides(addSpill(p, 16384, 4096).mutable_operands(0), {0, 512}); }},
    {"input_c2_index", [](Plan &p) { micro(p, 0)->mutable_attributes(0)->set_integer(1); }},
    {"input_c2_missing", [](Plan &p) { micro(p, 0)->clear_attributes(); }},
    {"input_c2_type", [](Plan &p) { micro(p, 0)->mutable_operands(0)->set_type(1); }},
    {"input_c2_in_update", [](Plan &p) { *p.mutable_update()->add_steps() = p.micro().steps(0); }},
    {"output_c2_index", [](Plan &p) { addOutputStep(p, 0); }},
    {"output_c2_in_update", [](Plan &p) { addOutputStep(p, 1); }},
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
    {"walk_c2_never_written",
     [](Plan &p) {
       micro(p, 1)->mutable_operands(1)->set_slice(4);
       micro(p, 1)->mutable_operands(2)->set_slice(3);
     }},
};

class VerifyNegative : public testing::TestWithParam<Negative> {};

} // namespace

TEST_P(VerifyNegative, IsFound) {
  Plan plan = test::tinyPlan();
  ASSERT_TRUE(verifyPlan(plan).ok());
  GetParam().damage(plan);
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::corrupt);
  std::string name = GetParam().name;
  std::string label = name.substr(0, name.find('_', name.find('_') + 1));
  EXPECT_EQ(status.error().note.substr(0, 9 + label.size()), "violates " + label) << render(status.error());
}
INSTANTIATE_TEST_SUITE_P(Constraint, VerifyNegative, testing::ValuesIn(kNegatives),
                         [](const auto &info) { return std::string(info.param.name); });

/// modelPlan whose weights, of 100 elements, are half of a tensor of 200.
static Plan cutPlan() {
  Plan plan = modelPlan(Mesh({{"local", 2}, {"model", 2, false}}), 1);
  planpb::TensorType whole;
  whole.add_dims(20);
  whole.add_dims(10);
  *plan.add_types() = whole;
  planpb::Parameter &parameter = *plan.mutable_parameters(0);
  parameter.mutable_cut()->set_type(static_cast<uint32_t>(plan.types_size() - 1));
  parameter.mutable_cut()->set_groups(5);
  parameter.set_inline_(std::string(800, 0));
  return plan;
}

TEST(Verify, parameter_c8_a_part_is_the_ranks_of_the_whole) {
  EXPECT_TRUE(verifyPlan(cutPlan()).ok()) << render(verifyPlan(cutPlan()).error());
  auto parameter = [](Plan &p) { return p.mutable_parameters(0); };
  const std::pair<const char *, std::function<void(Plan &)>> damages[] = {
      {"parameter_c8", [&](Plan &p) { parameter(p)->mutable_cut()->set_type(9999); }},
      {"parameter_c8", [&](Plan &p) { parameter(p)->mutable_cut()->set_dim(2); }},
      {"parameter_c8", [&](Plan &p) { parameter(p)->mutable_cut()->set_dim(1); }},
      {"parameter_c8", [&](Plan &p) { parameter(p)->mutable_cut()->set_groups(0); }},
      {"parameter_c8", [&](Plan &p) { parameter(p)->mutable_cut()->set_groups(3); }},
      {"parameter_c8", [&](Plan &p) { p.mutable_types(p.types_size() - 1)->set_dims(0, 40); }},
      {"parameter_c8", [&](Plan &p) { p.mutable_types(p.types_size() - 1)->set_type(planpb::BF16); }},
      {"parameter_c8", [&](Plan &p) { p.mutable_mesh(1)->set_kind(planpb::DATA); }},
      {"parameter_c2", [&](Plan &p) { parameter(p)->set_inline_(std::string(400, 0)); }},
      {"parameter_c8", [&](Plan &p) { // a whole one beside it
         p.mutable_buckets(0)->set_used(101);
         addSecondParameter(p, 128 - 64);
         p.mutable_types(static_cast<int>(p.parameters(0).type()))->set_dims(0, 5);
         p.mutable_types(p.types_size() - 2)->set_dims(0, 10);
         p.mutable_parameters(0)->set_inline_(std::string(400, 0));
         p.mutable_parameters(1)->clear_cut();
         p.mutable_buckets(0)->set_used(51);
       }}};
  for (const auto &[label, damage] : damages) {
    Plan plan = cutPlan();
    damage(plan);
    Status status = verifyPlan(plan);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().note.find(label), std::string::npos) << render(status.error());
  }
}

/// cutPlan whose parameter is two tiles of half the rows each.
static Plan tiledPlan() {
  Plan plan = cutPlan();
  const uint32_t own = plan.parameters(0).type();
  planpb::TensorType tile = plan.types(static_cast<int>(own));
  tile.set_dims(0, tile.dims(0) / 2);
  *plan.add_types() = tile;
  const auto index = static_cast<uint32_t>(plan.types_size() - 1);
  addSecondParameter(plan, 64);
  for (int i = 0; i < 2; ++i) {
    planpb::Parameter &parameter = *plan.mutable_parameters(i);
    parameter.set_name("tile" + std::to_string(i));
    parameter.set_type(index);
    parameter.set_inline_(std::string(800, 0));
    *parameter.mutable_cut() = plan.parameters(0).cut();
    parameter.mutable_part()->set_whole("w");
    parameter.mutable_part()->set_type(own);
    parameter.mutable_part()->set_first(static_cast<uint64_t>(50 * i));
  }
  plan.mutable_buckets(0)->set_used(100);
  return plan;
}

TEST(Verify, parameter_c7_tiles_are_all_of_a_ranks_part) {
  EXPECT_TRUE(verifyPlan(tiledPlan()).ok()) << render(verifyPlan(tiledPlan()).error());
  const std::pair<const char *, std::function<void(Plan &)>> damages[] = {
      {"parameter_c7", [](Plan &p) { p.mutable_parameters(1)->mutable_part()->set_first(40); }},
      {"parameter_c7", [](Plan &p) { p.mutable_parameters(1)->mutable_part()->set_type(9999); }},
      {"parameter_c7", [](Plan &p) { p.mutable_parameters(1)->mutable_cut()->set_groups(1); }},
      {"parameter_c7", [](Plan &p) { p.mutable_parameters(1)->mutable_part()->set_whole("v"); }},
      {"parameter_c8", [](Plan &p) { p.mutable_parameters(1)->mutable_part()->set_type(p.parameters(1).type()); }},
      {"parameter_c8", [](Plan &p) { p.mutable_parameters(1)->mutable_cut()->set_groups(3); }},
      {"parameter_c8", [](Plan &p) { p.mutable_parameters(1)->clear_part(); }},
      {"parameter_c2", [](Plan &p) { p.mutable_parameters(1)->set_inline_(std::string(200, 0)); }}};
  for (const auto &[label, damage] : damages) {
    Plan plan = tiledPlan();
    damage(plan);
    Status status = verifyPlan(plan);
    ASSERT_FALSE(status.ok()) << label;
    EXPECT_NE(status.error().note.find(label), std::string::npos) << render(status.error());
  }
}

TEST(Verify, ViewsOfOperandsAreSound) {
  const std::vector<StridedView> written[] = {
      {kAll2},
      {{2, 0, {2, 64}, {1, 2}}},                                                           // transposed
      {{2, 0, {64}, {1}}, {2, 64, {64}, {1}}},                                             // one behind the other
      {{2, 0, {8, 4}, {16, 1}}, {2, 4, {8, 8}, {16, 1}}, {2, 12, {2, 4, 4}, {64, 16, 1}}}, // side by side in rows
      {{2, 0, {8, 8}, {16, 2}}, {2, 1, {8, 8}, {16, 2}}},                                  // every other one
      {{2, 0, {0, 5}, {1, 1}}, kAll2},
      {{2, 0, {128, 1}, {1, 1000}}}};
  for (const std::vector<StridedView> &views : written) {
    std::vector<StridedView> all = {{0, 1, {3, 5}, {40, 2}}, kAll1};
    all.insert(all.end(), views.begin(), views.end());
    all.push_back(kLoss);
    Plan plan = test::tinyPlan();
    seeThrough(plan, all);
    EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  }
}

/// Who it is said to: the operand is inside its slice on every rank, of which only the last one's reaches the end.
TEST(Verify, view_c2_names_the_node_and_the_numbers) {
  Plan plan = test::tinyPlan();
  seeThrough(plan, {{0, 64, {2, 33}, {32, 1}}, kAll1, kAll2, kLoss});
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().number, 570);
  EXPECT_FALSE(status.error().where.empty());
  EXPECT_NE(status.error().message.find("view 0, from element 64 on, leaves tensor 0 of 128 elements"),
            std::string::npos)
      << render(status.error());
}

TEST(Verify, ALossScaleIsSound) {
  for (double initial : {1.0, 65536.0, 0x1p127}) {
    Plan plan = test::tinyPlan();
    scaleLoss(plan, initial);
    EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  }
}

TEST(Verify, plan_c1_format) {
  Plan plan = test::tinyPlan();
  plan.set_format(7);
  EXPECT_EQ(verifyPlan(plan).error().code, Code::mismatch);
}
