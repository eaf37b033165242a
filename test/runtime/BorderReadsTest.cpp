#include "base/Failpoint.h"
#include "runtime/exec/TierMemory.h"
#include "runtime/plan/Walk.h"
#include "test/runtime/ExpectOk.h"
#include "test/runtime/RunPlan.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

using namespace zc;
using zc::test::expectOk;

namespace {

using test::Outcome;
using test::runPlan;

/// A read of the nvme tier in each section: so the queue has a border after each.
planpb::Plan planOfReads() {
  test::PlanBuilder b(1, 1);
  b.plan = test::tinyPlanWithoutWaits(1, 1);
  const std::pair<uint32_t, int64_t> sections[] = {{0, int64_t(1) << 20}, {1, int64_t(32) << 20}};
  for (auto [section, bytes] : sections) {
    std::string name = std::to_string(section);
    uint32_t type = b.type(planpb::U8, {bytes});
    uint32_t file = b.slice("file" + name, static_cast<uint64_t>(bytes), true, -1, planpb::NVME);
    uint32_t memory = b.slice("memory" + name, static_cast<uint64_t>(bytes), false, -1, planpb::HOST);
    b.step(section, planpb::NVME_READ, "nvme_read", 1,
           {b.operand(file, type, planpb::READ), b.operand(memory, type, planpb::WRITE)});
  }
  EXPECT_TRUE(addWaits(b.plan).ok());
  return b.plan;
}

} // namespace

TEST(BorderReads, ReadsOfTheFileGoOnOverBordersOfSectionsAndSteps) {
  constexpr int64_t kSteps = 20;
  for (DeviceKind device : {DeviceKind::cpu, DeviceKind::fake}) {
    Outcome sync, outcome;
    uint64_t beside = 0, bytes = 0;
    expectOk(runPlan(planOfReads(), DeviceKind::sync, kSteps, sync));
    expectOk(runPlan(planOfReads(), device, kSteps, outcome, [&](RankExecutor &executor) {
      beside = executor.memory()->readsBegunBeside();
      bytes = executor.traffic().nvmeRead;
    }));
    EXPECT_TRUE(sync == outcome);
    EXPECT_EQ(bytes, uint64_t(kSteps) * (33 << 20));
    // The update's beside the micro-step's, always; the next step's as soon as it is asked for.
    EXPECT_GT(beside, uint64_t(kSteps));
    EXPECT_LT(beside, 2 * uint64_t(kSteps));
  }
}

TEST(BorderReads, AFailureOfAnyReadOverABorderIsFound) {
  for (int piece = 1; piece <= 100; piece += 9) { // of 33 a step
    expectOk(setFailpoints("spill.read@n=" + std::to_string(piece) + ":flip"));
    Outcome outcome;
    Status status = runPlan(planOfReads(), DeviceKind::cpu, 5, outcome);
    expectOk(setFailpoints(""));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::corrupt) << render(status.error());
    EXPECT_EQ(status.error().where, "tiny: node \"node of nvme_read\"");
  }
}
