#include "runtime/plan/Overlap.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/VerifyAliases.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>
#include <random>

using namespace zc;

static int64_t valueOf(const Affine &form, const Coordinates &at) {
  int64_t value = form.base;
  for (size_t k = 0; k < kMeshAxes; ++k)
    value += form.strides[k] * at[k];
  return value;
}

static bool holds(const std::vector<Bound> &bounds, const Coordinates &at) {
  for (const Bound &bound : bounds)
    if (int64_t value = valueOf(bound.form, at); value < bound.low || value > bound.high)
      return false;
  return true;
}

TEST(Overlap, FindsARankExactlyWhereThereIsOne) {
  std::mt19937 random(1);
  auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    Coordinates sizes{between(1, 6), between(1, 6)};
    RankBox ranks(sizes);
    std::vector<Bound> bounds;
    for (int64_t i = between(1, 3); i > 0; --i) {
      Affine form{between(-40, 40), {between(-20, 20), between(-20, 20)}};
      if (between(0, 2) == 0) // as of a stride per rank
        form.strides[0] = form.strides[1] * sizes[1];
      int64_t low = between(-20, 20);
      bounds.push_back({ranks.normalized(form), low, low + between(0, 8)});
    }
    bool expected = false;
    for (Coordinates at{}; at[0] < sizes[0]; ++at[0])
      for (at[1] = 0; at[1] < sizes[1]; ++at[1])
        expected |= holds(bounds, at);
    uint64_t work = 0;
    std::optional<Coordinates> at = ranks.find(bounds, work);
    ASSERT_EQ(at.has_value(), expected) << round;
    EXPECT_TRUE(!at || holds(bounds, *at)) << round;
    found += expected;
  }
  EXPECT_GT(found, 1000);
}

TEST(Overlap, AStridePerRankTakesOneLook) {
  RankBox ranks({8192, 8});
  uint64_t work = 0;
  EXPECT_TRUE(ranks.find({{{-256 * 54321, {256 * 8, 256}}, 0, 255}}, work));
  EXPECT_FALSE(ranks.find({{{-256 * 54321 - 7, {256 * 8, 256}}, 0, 1}}, work));
  EXPECT_EQ(work, 2u);
}

namespace {

/// A step on all of `world` ranks that reads and writes 64 bytes of one slice.
Status verifyPair(uint32_t world, uint64_t read, uint64_t readStride, uint64_t written, uint64_t writtenStride) {
  test::PlanBuilder b(world, 1);
  uint32_t part = b.type(planpb::U8, {64});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("kept", 65536, true));
  b.step(0, planpb::COMPUTE, "mix", 1,
         {b.operand(0, part, planpb::READ, read, {0, readStride}),
          b.operand(0, part, planpb::WRITE, written, {0, writtenStride})});
  return verifyPlan(b.plan);
}

std::string noteOf(const Status &status) { return status.ok() ? "" : status.error().note; }

} // namespace

TEST(Verify, operand_c4_holds_on_ranks_in_between) {
  EXPECT_EQ(noteOf(verifyPair(5, 0, 192, 1024, 64)), "");                      // never near
  EXPECT_EQ(noteOf(verifyPair(5, 0, 512, 1024, 16)), "violates operand_c4");   // across each other at rank 2
  EXPECT_EQ(noteOf(verifyPair(5, 0, 576, 1024, 64)), "");                      // in place at rank 2
  EXPECT_EQ(noteOf(verifyPair(5, 0, 576, 1024, 128)), "");                     // passed between ranks 2 and 3
  EXPECT_EQ(noteOf(verifyPair(5, 0, 64, 32, 64)), "violates operand_c4");      // on all ranks
  EXPECT_EQ(noteOf(verifyPair(1, 0, ~uint64_t(0), 64, ~uint64_t(0) - 5)), ""); // no rank to multiply with
  Status status = verifyPair(5, 0, 512, 1024, 16);
  EXPECT_NE(status.error().message.find("on rank 2"), std::string::npos) << render(status.error());
}

/// The own part along some axes of three: strides that follow another axis are another part.
TEST(Verify, operand_c4_own_parts_along_axes) {
  for (uint64_t outer : {128u, 64u}) {
    test::PlanBuilder b(Mesh({{"node", 2}, {"local", 2}, {"model", 2, false}}), 1);
    uint32_t part = b.type(planpb::U8, {64}), whole = b.type(planpb::U8, {256});
    b.plan.mutable_metrics()->set_loss_slice(b.slice("kept", 256, true));
    planpb::Step &gather =
        b.step(0, planpb::COMM, "all_gather", 1,
               {b.operand(0, part, planpb::READ, 0, {outer, 64, 0}), b.operand(0, whole, planpb::WRITE)});
    b.along(gather, b.mesh.dataAxes());
    EXPECT_EQ(noteOf(verifyPlan(b.plan)), outer == 128 ? "" : "violates operand_c4");
    // Along the model axis it is no part of a rank's own.
    gather.clear_axes();
    b.along(gather, b.mesh.find(kModelAxis));
    EXPECT_NE(noteOf(verifyPlan(b.plan)), "");
  }
}

TEST(Verify, operand_c4_a_sum_that_widens_is_not_in_place) {
  test::PlanBuilder b(2, 1);
  b.plan.mutable_metrics()->set_loss_slice(b.slice("kept", 512, true));
  uint32_t halves = b.type(planpb::BF16, {256}), sums = b.type(planpb::F32, {128});
  b.step(0, planpb::COMM, "reduce_scatter", 1, {b.operand(0, halves, planpb::READ), b.operand(0, sums, planpb::WRITE)});
  EXPECT_EQ(noteOf(verifyPlan(b.plan)), "violates operand_c4");
  uint32_t half = b.type(planpb::BF16, {128});
  b.plan.mutable_micro()->mutable_steps(0)->mutable_operands(1)->set_type(half);
  for (uint64_t stride : {0, 256})
    b.plan.mutable_micro()->mutable_steps(0)->mutable_operands(1)->add_strides(stride);
  EXPECT_EQ(noteOf(verifyPlan(b.plan)), "");
}

TEST(Verify, ManyOperandsAreSweptOnce) {
  constexpr uint32_t kOperands = 4096;
  test::PlanBuilder b(4, 1);
  uint32_t type = b.type(planpb::U8, {16}), slice = b.slice("kept", kOperands * 16, true);
  b.plan.mutable_metrics()->set_loss_slice(slice);
  for (int i = 0; i < 40; ++i) {
    planpb::Step &step = b.step(0, planpb::COMPUTE, "mix", 0, {});
    for (uint32_t at = 0; at < kOperands; ++at)
      *step.add_operands() = b.operand(slice, type, planpb::WRITE, at * 16);
  }
  EXPECT_EQ(noteOf(verifyPlan(b.plan)), "");
  verify::AliasFinder finder(b.plan);
  for (const planpb::Step &step : b.plan.micro().steps())
    EXPECT_FALSE(finder.find(step, verify::Sharing::none).alias);
  EXPECT_LT(finder.workSoFar(), 2u * 40 * kOperands);
  b.plan.mutable_micro()->mutable_steps(39)->mutable_operands(7)->set_offset(1234 * 16);
  EXPECT_EQ(noteOf(verifyPlan(b.plan)), "violates operand_c4");
}

TEST(Verify, step_c4_operands_that_all_reach_across_each_other) {
  // Written a byte after each other on rank 0, and 4 KiB further on each rank: never together, but their reaches are.
  test::PlanBuilder b(256, 1);
  uint32_t type = b.type(planpb::U8, {1}), slice = b.slice("kept", 4096 * 256, true);
  b.plan.mutable_metrics()->set_loss_slice(slice);
  for (int i = 0; i < 10; ++i) {
    planpb::Step &step = b.step(0, planpb::COMPUTE, "mix", 0, {});
    for (uint32_t at = 0; at < 4096; ++at)
      *step.add_operands() = b.operand(slice, type, planpb::WRITE, at, {0, 4096});
  }
  EXPECT_EQ(noteOf(verifyPlan(b.plan)), "violates step_c4");
}
