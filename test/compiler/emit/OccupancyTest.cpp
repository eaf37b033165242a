#include "compiler/emit/Occupancy.h"
#include "compiler/emit/MemoryPage.h"

#include <gtest/gtest.h>

using namespace zc;

namespace {

void addSlice(planpb::Plan &plan, uint64_t bytes, planpb::Class klass, bool persistent, uint32_t arena = 0) {
  planpb::Slice &slice = *plan.add_slices();
  slice.set_bytes(bytes);
  slice.set_klass(klass);
  slice.set_persistent(persistent);
  slice.set_arena(arena);
}

/// Steps of the micro section that touch these slices.
planpb::Plan planOf(std::vector<std::vector<uint32_t>> steps) {
  planpb::Plan plan;
  plan.set_accumulation(1);
  plan.add_strings("");
  plan.add_arenas()->set_bytes(600);
  plan.add_arenas()->set_tier(planpb::HOST);
  addSlice(plan, 100, planpb::PARAMETERS, true);
  addSlice(plan, 20, planpb::ACTIVATIONS, false);
  addSlice(plan, 300, planpb::BUFFERS, false);
  addSlice(plan, 4000, planpb::ACTIVATIONS, false, 1);
  for (const std::vector<uint32_t> &touched : steps) {
    planpb::Step &step = *plan.mutable_micro()->add_steps();
    for (uint32_t slice : touched)
      step.add_operands()->set_slice(slice);
  }
  return plan;
}

TEST(Occupancy, fromFirstToLastUse) {
  planpb::Plan plan = planOf({{0}, {1}, {2, 3}, {1, 2}, {2}, {0}});
  Occupancy device = occupancyOf(plan, plan.micro(), 0);
  std::vector<uint64_t> sums;
  for (const ClassBytes &bytes : device.steps)
    sums.push_back(sumOf(bytes));
  EXPECT_EQ(sums, (std::vector<uint64_t>{100, 120, 420, 420, 400, 100}));
  EXPECT_EQ(device.peak(), 2);
  EXPECT_EQ(device.steps[2], (ClassBytes{100, 0, 0, 20, 300}));
  EXPECT_EQ(device.extents[1].first, 1);
  EXPECT_EQ(device.extents[1].last, 3);
  Occupancy host = occupancyOf(plan, plan.micro(), 1);
  EXPECT_EQ(sumOf(host.steps[2]), 4000u);
  EXPECT_EQ(sumOf(host.steps[3]), 0u);
  EXPECT_EQ(occupancyOf(plan, plan.update(), 0).peak(), -1);
}

TEST(MemoryPage, namesCannotLeaveTheirScript) {
  planpb::Plan plan = planOf({{0, 1}});
  plan.add_strings("</script><img src=x onerror=alert(1)>\xff");
  plan.mutable_micro()->mutable_steps(0)->set_node(1);
  plan.mutable_model()->set_name("<!--");
  std::string page = memoryPage(plan);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_NE(page.find("\\u003cimg src=x"), std::string::npos);
  EXPECT_EQ(page.find("@PLAN@"), std::string::npos);
}

TEST(MemoryPage, emptyPlan) { EXPECT_NE(memoryPage(planpb::Plan()).find("\"tiers\":[]"), std::string::npos); }

} // namespace
