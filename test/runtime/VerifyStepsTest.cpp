#include "runtime/plan/Walk.h"
#include "test/runtime/VerifyNegative.h"

#include <array>
#include <cmath>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

/// Of the operands of seeThrough's step.
static const StridedView kAll0{0, 0, {128}, {1}}, kAll1{1, 0, {128}, {1}}, kAll2{2, 0, {128}, {1}}, kLoss{3, 0, {}, {}};

namespace {

const Negative kStepsNegatives[] = {
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
    {"step_c5_bytes", [](Plan &p) { micro(p, 0)->set_bytes(kHuge); }},
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
    {"view_c2_backwards", [](Plan &p) { seeThrough(p, {{0, 126, {128}, {-1}}, kAll1, kAll2, kLoss}); }},
    {"view_c2_backwards_wraps", [](Plan &p) { seeThrough(p, {{0, 1, {2}, {INT64_MIN}}, kAll1, kAll2, kLoss}); }},
    {"view_c3_backwards", [](Plan &p) { seeThrough(p, {{0, 31, {4, 32}, {31, -1}}, kAll1, kAll2, kLoss}); }},
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
    {"kept_c1_persistent", [](Plan &p) { keeps(p, planpb::DEVICE, /*persistent=*/true); }},
    {"kept_c1_tier", [](Plan &p) { keeps(p, planpb::HOST); }},
    {"kept_c1_access", [](Plan &p) { keeps(p)->mutable_place()->set_access(planpb::WRITE); }},
    {"kept_c1_over_an_operand", [](Plan &p) { keeps(p)->mutable_place()->set_slice(3); }},
    {"kept_c1_over_the_workspace",
     [](Plan &p) { keeps(p)->mutable_place()->set_slice(worksIn(p, planpb::DEVICE)->slice()); }},
    {"kept_c1_in_update",
     [](Plan &p) {
       keeps(p);
       micro(p, 1)->mutable_kept()->Swap(update(p, 0)->mutable_kept());
       micro(p, 1)->clear_kept();
     }},
    {"kept_c1_once_a_step", [](Plan &p) { keeps(p), p.set_accumulation(1); }},
    {"kept_c1_vertical", [](Plan &p) { keeps(p), p.set_vertical(true); }},
    {"kept_c2_no_input", [](Plan &p) { keeps(p)->set_input(2); }},
    {"kept_c2_transient", [](Plan &p) { keeps(p)->set_input(1); }},
    {"kept_c2_written", [](Plan &p) { keeps(p), micro(p, 2)->mutable_operands(1)->set_slice(0); }},
    {"operand_c2_kept", [](Plan &p) { keeps(p)->mutable_place()->set_offset(1); }},
    {"walk_c2_kept", overwriteKept},
    {"operand_c2_workspace", [](Plan &p) { worksIn(p, planpb::DEVICE)->set_offset(1); }},
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
    {"copy_c3_reads_over_state",
     [](Plan &p) {
       auto nvme = static_cast<uint32_t>(addSlice(p, 5000, planpb::NVME));
       addCopy(p, "nvme_read", planpb::NVME_READ, nvme, static_cast<uint32_t>(addSlice(p, 8192, planpb::HOST)), 5000);
     }},
    {"copy_c3_stride", [](Plan &p) { setStrides(addSpill(p, 16384, 4096).mutable_operands(0), {0, 512}); }},
    {"input_c2_index", [](Plan &p) { micro(p, 0)->mutable_attributes(0)->set_integer(1); }},
    {"input_c2_missing", [](Plan &p) { micro(p, 0)->clear_attributes(); }},
    {"input_c2_type", [](Plan &p) { micro(p, 0)->mutable_operands(0)->set_type(1); }},
    {"input_c2_in_update", [](Plan &p) { *p.mutable_update()->add_steps() = p.micro().steps(0); }},
    {"output_c2_index", [](Plan &p) { addOutputStep(p, 0); }},
    {"output_c2_in_update", [](Plan &p) { addOutputStep(p, 1); }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(Steps, kStepsNegatives);
} // namespace zc::test

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

TEST(Verify, WhatIsKeptStaysOverMicroSteps) {
  Plan plan = tinyPlan();
  keeps(plan);
  EXPECT_TRUE(verifyPlan(plan).ok());
  // Before the first micro-step, and after the last, its bytes are anybody's.
  const planpb::Slice kept = plan.slices(static_cast<int>(micro(plan, 1)->kept().place().slice()));
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t over = b.slice("over", 256, false), type = b.type(planpb::U8, {256});
  b.plan.mutable_slices(static_cast<int>(over))->set_offset(kept.offset());
  b.step(1, planpb::COMPUTE, "copy", 1, {b.operand(0, type, planpb::READ), b.operand(over, type, planpb::WRITE)});
  b.plan.Swap(&plan);
  for (planpb::Section *section : {plan.mutable_micro(), plan.mutable_update()})
    for (planpb::Step &step : *section->mutable_steps())
      step.clear_waits();
  ASSERT_TRUE(addWaits(plan).ok());
  EXPECT_TRUE(verifyPlan(plan).ok());
}
