#include "runtime/plan/Walk.h"
#include "test/runtime/VerifyNegative.h"

#include <array>
#include <random>

using namespace zc;
using namespace zc::test;
using planpb::Plan;

namespace {

const Negative kWalkNegatives[] = {
    {"wait_c1_section", [](Plan &p) { micro(p, 1)->add_waits()->set_section(2); }},
    {"wait_c1_queue", [](Plan &p) { micro(p, 1)->add_waits()->set_queue(static_cast<planpb::Queue>(9)); }},
    {"wait_c1_ordinal", [](Plan &p) { micro(p, 1)->add_waits()->set_ordinal(2); }},
    {"wait_c1_distance", [](Plan &p) { micro(p, 1)->add_waits()->set_distance(1u << 30); }},
    {"wait_c2_itself", [](Plan &p) { micro(p, 1)->add_waits(); }},
    {"wait_c2_cycle", [](Plan &p) { micro(p, 1)->add_waits()->set_queue(planpb::COMM); }},
    {"wait_c2_update_from_micro", [](Plan &p) { micro(p, 1)->add_waits()->set_section(1); }},
    {"walk_c2_never_written",
     [](Plan &p) {
       micro(p, 1)->mutable_operands(1)->set_slice(4);
       micro(p, 1)->mutable_operands(2)->set_slice(3);
     }},
};

} // namespace

namespace zc::test {
ZC_VERIFY_NEGATIVES(Walk, kWalkNegatives);
} // namespace zc::test

TEST(Verify, TinyPlansOfAllWorldsAreSound) {
  for (uint32_t world : {1, 2, 3, 4, 8})
    for (uint32_t accumulation : {1, 2, 5}) {
      Status status = verifyPlan(test::tinyPlan(world, accumulation));
      EXPECT_TRUE(status.ok()) << world << " " << accumulation << " " << render(status.error());
    }
}

TEST(Verify, walk_c1_every_wait_of_the_tiny_plan_is_needed) {
  Plan plan = test::tinyPlan();
  int removed = 0;
  for (uint32_t section : {0u, 1u})
    for (int i = 0; i < (section == 0 ? plan.micro() : plan.update()).steps_size(); ++i)
      for (int w = 0; w < stepOf(plan, {section, 0, uint32_t(i)}).waits_size(); ++w) {
        Plan racy = plan;
        planpb::Step *step = (section == 0 ? racy.mutable_micro() : racy.mutable_update())->mutable_steps(i);
        step->mutable_waits()->DeleteSubrange(w, 1);
        Status status = verifyPlan(racy);
        ASSERT_FALSE(status.ok()) << describe(plan, {section, 0, uint32_t(i)}) << " wait " << w;
        EXPECT_EQ(status.error().note.rfind("violates walk_c1", 0), 0u) << render(status.error());
        ++removed;
      }
  EXPECT_GE(removed, 8);
}

TEST(Verify, walk_c2_overlapping_live_ranges) {
  test::PlanBuilder b(1, 1);
  uint32_t type = b.type(planpb::U8, {256});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("kept", 256, true));
  uint32_t a = b.slice("a", 256, false, 256), c = b.slice("c", 256, false, 256);
  auto kept = [&](planpb::Access access) { return b.operand(0, type, access); };
  b.step(0, planpb::COMPUTE, "mix", 1, {kept(planpb::READ), b.operand(a, type, planpb::WRITE)});
  b.step(0, planpb::COMPUTE, "mix", 1, {b.operand(a, type, planpb::READ), kept(planpb::READ_WRITE)});
  EXPECT_TRUE(verifyPlan(b.plan).ok());
  // Slice c takes the bytes of a between its write and its read.
  b.step(0, planpb::COMPUTE, "mix", 1, {kept(planpb::READ), b.operand(c, type, planpb::WRITE)});
  b.plan.mutable_micro()->mutable_steps()->SwapElements(1, 2);
  Status status = verifyPlan(b.plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().number, 452);
  EXPECT_EQ(status.error().note.rfind("violates walk_c2: the last writer is micro step 1", 0), 0u)
      << render(status.error());
}

TEST(Verify, walk_c1_ranks_between_the_first_and_the_last) {
  test::PlanBuilder b(4, 1);
  uint32_t part = b.type(planpb::U8, {64});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 256, true));
  uint32_t whole = b.slice("whole", 256, true), out = b.slice("out", 256, false);
  auto reads = [&](uint64_t first, uint64_t second) {
    b.step(0, planpb::COMPUTE, "mix", 2,
           {b.operand(whole, part, planpb::READ, first), b.operand(whole, part, planpb::READ, second),
            b.operand(out, part, planpb::WRITE)});
  };
  reads(0, 192); // of ranks 0 and 3
  reads(64, 128);
  b.step(0, planpb::COMM, "mix", 0, {b.operand(whole, part, planpb::WRITE, 0, {0, 64})});
  ASSERT_TRUE(addWaits(b.plan).ok());
  EXPECT_TRUE(verifyPlan(b.plan).ok());
  ASSERT_EQ(b.plan.micro().steps(2).waits_size(), 1);
  EXPECT_EQ(b.plan.micro().steps(2).waits(0).ordinal(), 1u);
  // Waiting for what reads the parts of ranks 0 and 3 is not enough for the others.
  b.plan.mutable_micro()->mutable_steps(2)->mutable_waits(0)->set_ordinal(0);
  Status status = verifyPlan(b.plan);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().note.find("violates walk_c1"), std::string::npos) << render(status.error());
}

/// What a rank writes at its own place it may read there, on every rank; anything else of it is not written.
TEST(Verify, walk_c2_own_parts_of_what_is_transient) {
  for (uint64_t readStride : {64u, 128u}) {
    test::PlanBuilder b(4, 1);
    uint32_t part = b.type(planpb::U8, {64}), whole = b.type(planpb::U8, {256});
    b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 256, true));
    uint32_t parts = b.slice("parts", 512, false), kept = b.slice("kept", 256, true);
    b.step(0, planpb::COMPUTE, "mix", 0, {b.operand(parts, part, planpb::WRITE, 0, {0, 64})});
    b.step(0, planpb::COMPUTE, "mix", 1,
           {b.operand(parts, part, planpb::READ, 0, {0, readStride}), b.operand(kept, part, planpb::WRITE)});
    Status status = verifyPlan(b.plan);
    EXPECT_EQ(status.ok(), readStride == 64) << render(status.error());
    // Gathered, all of it is written.
    b.plan.mutable_micro()->mutable_steps(1)->mutable_operands(0)->set_type(whole);
    b.plan.mutable_micro()->mutable_steps(1)->mutable_operands(0)->clear_strides();
    EXPECT_EQ(verifyPlan(b.plan).error().number, 451);
    b.step(0, planpb::COMM, "all_gather", 1,
           {b.operand(parts, part, planpb::READ, 0, {0, 64}), b.operand(parts, whole, planpb::WRITE)});
    b.plan.mutable_micro()->mutable_steps()->SwapElements(1, 2);
    ASSERT_TRUE(addWaits(b.plan).ok());
    status = verifyPlan(b.plan);
    EXPECT_TRUE(status.ok()) << render(status.error());
  }
}

/// Part of its own part it may read as well, where that lies within on every rank.
TEST(Verify, walk_c2_parts_of_own_parts) {
  struct {
    uint64_t offset, stride;
    bool isWithin;
  } const cases[] = {{0, 64, true},   {32, 64, true}, {33, 64, false}, {16, 68, true},
                     {16, 70, false}, {16, 60, true}, {16, 58, false}, {192, 0, false}};
  for (const auto &[offset, stride, isWithin] : cases) {
    test::PlanBuilder b(4, 1);
    uint32_t part = b.type(planpb::U8, {64}), half = b.type(planpb::U8, {32});
    b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 256, true));
    uint32_t parts = b.slice("parts", 512, false), kept = b.slice("kept", 256, true);
    b.step(0, planpb::COMPUTE, "mix", 0, {b.operand(parts, part, planpb::WRITE, 64, {0, 64})});
    b.step(0, planpb::COMPUTE, "mix", 1,
           {b.operand(parts, half, planpb::READ, 64 + offset, {0, stride}), b.operand(kept, half, planpb::WRITE)});
    Status status = verifyPlan(b.plan);
    EXPECT_EQ(status.ok(), isWithin) << offset << " " << stride << " " << render(status.error());
  }
}

/// On a mesh of three axes the ranges of the ranks reach from where all coordinates are first to where all are last.
TEST(Verify, walk_c1_strides_along_several_axes) {
  test::PlanBuilder b(Mesh({{"node", 2}, {"local", 2}, {"model", 2, false}}), 1);
  uint32_t part = b.type(planpb::U8, {64});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 256, true));
  uint32_t whole = b.slice("whole", 1024, true), out = b.slice("out", 64, false);
  b.step(0, planpb::COMPUTE, "mix", 1,
         {b.operand(whole, part, planpb::READ, 192 + 512), b.operand(out, part, planpb::WRITE)});
  b.step(0, planpb::COMM, "mix", 0, {b.operand(whole, part, planpb::WRITE, 0, {512, 128, 64})});
  Status status = verifyPlan(b.plan);
  ASSERT_FALSE(status.ok()); // the last rank writes what is read
  EXPECT_NE(status.error().note.find("violates walk_c1"), std::string::npos) << render(status.error());
  ASSERT_TRUE(addWaits(b.plan).ok());
  EXPECT_TRUE(verifyPlan(b.plan).ok());
}

TEST(Verify, walk_c2_a_step_needs_what_is_published_after_it) {
  test::PlanBuilder b(1, 1);
  uint32_t type = b.type(planpb::U8, {256});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 256, true));
  uint32_t kept = b.slice("kept", 256, true), temporary = b.slice("temporary", 256, false);
  b.step(1, planpb::COMPUTE, "mix", 1,
         {b.operand(kept, type, planpb::READ), b.operand(temporary, type, planpb::WRITE)});
  b.step(1, planpb::COMPUTE, "mix", 1,
         {b.operand(temporary, type, planpb::READ), b.operand(kept, type, planpb::WRITE)});
  b.plan.mutable_delay()->set_after(3);
  EXPECT_TRUE(verifyPlan(b.plan).ok());
  b.plan.mutable_update()->mutable_steps(0)->set_publishes(true);
  Status status = verifyPlan(b.plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().number, 451) << render(status.error());
}

TEST(Verify, RandomPlansWithComputedWaitsAreSoundAndWithoutAreNot) {
  int racy = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Plan plan = test::randomPlan(seed, 40, 1 + seed % 3);
    racy += !verifyPlan(plan).ok();
    Status added = addWaits(plan);
    ASSERT_TRUE(added.ok()) << render(added.error());
    Status status = verifyPlan(plan);
    ASSERT_TRUE(status.ok()) << render(status.error());
  }
  EXPECT_EQ(racy, 50);
}

TEST(Verify, AnyDamageIsAnErrorOrASoundPlanNeverACrash) {
  std::string good = test::tinyPlan().SerializeAsString();
  std::mt19937 random(1);
  int refused = 0, parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (uint32_t n = 1 + random() % 3; n > 0; --n)
      bad[random() % bad.size()] = static_cast<char>(random());
    Plan plan;
    google::protobuf::LogSilencer silence;
    if (!plan.ParseFromString(bad))
      continue;
    ++parsed;
    refused += !verifyPlan(plan).ok();
  }
  EXPECT_GT(parsed, 1000);
  EXPECT_GT(refused, parsed / 10); // most bytes are names and initial values
}

TEST(Verify, TheWorkOfAWalkGrowsWithItsSteps) {
  Plan plan = test::randomPlan(3, 25000, 2);
  ASSERT_TRUE(addWaits(plan).ok());
  Status status = verifyPlan(plan);
  ASSERT_TRUE(status.ok()) << render(status.error());
  int steps = plan.micro().steps_size() + plan.update().steps_size();
  EXPECT_GT(steps, 40000);
  Status walked = PlanWalk(plan).run([](const WalkStep &, const HazardTracker::Findings &) { return Status(); },
                                     uint64_t(20) * static_cast<uint64_t>(steps));
  EXPECT_TRUE(walked.ok()) << render(walked.error());
}

TEST(Verify, CopiesOfWholeBlocksAreSound) {
  for (auto [bytes, moved, offset] : {std::array<uint64_t, 3>{8192, 4096, 4096}, {8192, 8192, 0}, {5000, 904, 4096}}) {
    Plan plan = test::tinyPlan();
    test::addSpill(plan, bytes, moved, offset);
    Status status = verifyPlan(plan);
    EXPECT_TRUE(status.ok()) << render(status.error());
  }
}

TEST(Verify, walk_c1_the_rest_of_a_block_is_moved_as_well) {
  // One slice of 100 bytes is written to nvme while a transient one that covers the rest of its block is filled.
  Plan plan = test::tinyPlan();
  test::addSpill(plan, 100, 100);
  test::PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  int64_t at = static_cast<int64_t>(b.plan.slices(b.plan.slices_size() - 2).offset());
  b.plan.mutable_slices(b.plan.slices_size() - 2)->set_persistent(false);
  uint32_t over = b.slice("over", 4096, false, at, planpb::HOST), tail = b.type(planpb::U8, {3000});
  b.step(1, planpb::HOST_COMPUTE, "mix", 0, {b.operand(over, tail, planpb::WRITE, 512)});
  b.plan.Swap(&plan);
  // The slice must be written before it is spilled.
  planpb::Step fill = plan.update().steps(plan.update().steps_size() - 1);
  fill.mutable_operands(0)->set_slice(over - 2);
  fill.mutable_operands(0)->set_type(plan.update().steps(plan.update().steps_size() - 2).operands(0).type());
  fill.mutable_operands(0)->set_offset(0);
  *plan.mutable_update()->add_steps() = fill;
  auto *steps = plan.mutable_update()->mutable_steps();
  for (int i = steps->size() - 1; i > 0; --i)
    steps->SwapElements(i, i - 1);
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.ok());
  ASSERT_TRUE(addWaits(plan).ok());
  EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  planpb::Step &racing = *steps->Mutable(steps->size() - 1);
  ASSERT_GT(racing.waits_size(), 0);
  racing.clear_waits();
  EXPECT_EQ(verifyPlan(plan).error().note.rfind("violates walk_c1", 0), 0u);
}
