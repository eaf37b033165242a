#include "test/runtime/VerifyNegative.h"

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

const Negative kModelStateNegatives[] = {
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
    {"bucket_c7_of_f32", [](Plan &p) { p.mutable_buckets(0)->set_gradient_type(planpb::F32); }},
    {"bucket_c5_shared", [](Plan &p) { p.mutable_buckets(0)->set_moment1_slice(0); }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(ModelState, kModelStateNegatives);
} // namespace zc::test

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
