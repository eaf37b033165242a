#include "runtime/plan/Hazards.h"
#include "runtime/plan/Walk.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

using namespace zc;

namespace {

struct Use {
  uint64_t begin, end;
  bool reads, writes;
  uint32_t slice = 0;
  bool transient = false;
};

/// One step; its findings by value.
HazardTracker::Findings feed(HazardTracker &tracker, unsigned queue, std::initializer_list<Use> uses,
                             std::initializer_list<HazardTracker::StepId> waits = {}) {
  tracker.begin(queue);
  for (HazardTracker::StepId wait : waits)
    tracker.wait(wait);
  for (const Use &use : uses)
    tracker.touch({0, use.begin, use.end, use.slice, use.reads, use.writes, use.transient});
  return tracker.finish();
}

constexpr Use read(uint64_t begin, uint64_t end) { return {begin, end, true, false}; }
constexpr Use write(uint64_t begin, uint64_t end) { return {begin, end, false, true}; }

std::vector<HazardTracker::StepId> missing(const HazardTracker::Findings &findings) {
  std::vector<HazardTracker::StepId> steps;
  for (const auto &dependence : findings.missing)
    steps.push_back(dependence.step);
  return steps;
}
using Steps = std::vector<HazardTracker::StepId>;

} // namespace

TEST(Hazards, EachKindIsFoundAcrossQueuesOnly) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 100)});
  EXPECT_EQ(missing(feed(tracker, 0, {read(0, 100)})), Steps{}); // same queue
  auto raw = feed(tracker, 1, {read(50, 60)});
  ASSERT_EQ(missing(raw), Steps{0});
  EXPECT_EQ(raw.missing[0].kind, HazardTracker::Kind::readAfterWrite);
  auto war = feed(tracker, 2, {write(55, 56)}); // after both readers; step 2 knows step 0 but not step 1
  ASSERT_EQ(missing(war), (Steps{2, 1}));
  EXPECT_EQ(war.missing[0].kind, HazardTracker::Kind::writeAfterRead);
  feed(tracker, 3, {write(200, 300)});
  auto waw = feed(tracker, 4, {write(299, 301)});
  ASSERT_EQ(missing(waw), Steps{4});
  EXPECT_EQ(waw.missing[0].kind, HazardTracker::Kind::writeAfterWrite);
  EXPECT_EQ(waw.missing[0].begin, 299u);
}

TEST(Hazards, WhatWasBeforeADrainIsOverOnAllQueues) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 100)});
  tracker.drain();
  EXPECT_EQ(missing(feed(tracker, 1, {write(0, 100)})), Steps{});
  EXPECT_EQ(missing(feed(tracker, 2, {read(0, 100)})), Steps{1}); // which is after it
}

TEST(Hazards, TouchingRangesDoNotMeet) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 100)});
  EXPECT_EQ(missing(feed(tracker, 1, {write(100, 200)})), Steps{});
  EXPECT_EQ(missing(feed(tracker, 2, {write(100, 100)})), Steps{}); // empty
}

TEST(Hazards, WaitsAndWhatTheyImplyAreEnough) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 10)});
  feed(tracker, 0, {write(20, 30)});
  EXPECT_EQ(missing(feed(tracker, 1, {read(0, 10)}, {1})), Steps{});                 // a later step of the queue
  EXPECT_EQ(missing(feed(tracker, 2, {write(0, 10), write(20, 30)}, {2})), Steps{}); // through queue 1
}

TEST(Hazards, OneWaitStandsForWhatItImplies) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 10)});
  feed(tracker, 1, {read(0, 10), write(10, 20)}, {0});
  EXPECT_EQ(missing(feed(tracker, 2, {read(0, 20)})), Steps{1});
}

TEST(Hazards, ReadersDoNotOrderEachOther) {
  HazardTracker tracker(1);
  feed(tracker, 0, {write(0, 10)});
  feed(tracker, 1, {read(0, 10)}, {0});
  EXPECT_EQ(missing(feed(tracker, 2, {read(0, 10)}, {0})), Steps{});
  EXPECT_EQ(missing(feed(tracker, 0, {write(0, 10)})), (Steps{2, 1}));
}

TEST(Hazards, StaleReadsAreNamed) {
  HazardTracker tracker(1);
  auto unwritten = feed(tracker, 0, {{0, 10, true, false, 7, true}});
  ASSERT_EQ(unwritten.stale.size(), 1u);
  EXPECT_EQ(unwritten.stale[0].writer, HazardTracker::kNoStep);
  feed(tracker, 0, {{0, 10, false, true, 7, true}});
  feed(tracker, 0, {{8, 20, false, true, 9, true}}); // another live range takes the end
  EXPECT_TRUE(feed(tracker, 0, {{0, 8, true, false, 7, true}}).stale.empty());
  auto overwritten = feed(tracker, 0, {{0, 10, true, false, 7, true}});
  ASSERT_EQ(overwritten.stale.size(), 1u);
  EXPECT_EQ(overwritten.stale[0].writerSlice, 9u);
  EXPECT_EQ(overwritten.stale[0].begin, 8u);
  EXPECT_TRUE(feed(tracker, 0, {{100, 110, true, false, 7, false}}).stale.empty()); // persistent: loaded before
}

TEST(Hazards, ExecutionsThatWaitsMean) {
  // Three micro-steps per update: micro 0 1 2, update 0, micro 3 4 5, update 1.
  EXPECT_EQ(waitedExecution(0, 4, 0, 0, 3), 4);
  EXPECT_EQ(waitedExecution(0, 3, 0, 1, 3), 2);
  EXPECT_EQ(waitedExecution(0, 0, 0, 1, 3), -1);
  EXPECT_EQ(waitedExecution(0, 5, 1, 1, 3), 0);
  EXPECT_EQ(waitedExecution(0, 2, 1, 1, 3), -1);
  EXPECT_EQ(waitedExecution(0, 5, 1, 0, 3), -1); // not allowed
  EXPECT_EQ(waitedExecution(1, 1, 0, 0, 3), 5);
  EXPECT_EQ(waitedExecution(1, 0, 0, 2, 3), 0);
  EXPECT_EQ(waitedExecution(1, 1, 1, 1, 3), 0);
}

TEST(Hazards, AddWaitsFindsThoseOfTheTinyPlan) {
  planpb::Plan plan = test::tinyPlan();
  auto waits = [](const planpb::Step &step) {
    std::string text;
    for (const planpb::Wait &w : step.waits())
      text += "s" + std::to_string(w.section()) + planpb::Queue_Name(w.queue()) + std::to_string(w.ordinal()) + "-" +
              std::to_string(w.distance()) + " ";
    return text;
  };
  EXPECT_EQ(waits(plan.micro().steps(0)), "s0COMPUTE0-1 ");                 // x is still read by the micro-step before
  EXPECT_EQ(waits(plan.micro().steps(1)), "s0H2D0-0 s0COMM0-1 s1COMM0-1 "); // x, gradients being reduced, parameters
  EXPECT_EQ(waits(plan.micro().steps(2)), "s0COMPUTE0-0 "); // and with it that the last update is done with the shard
  EXPECT_EQ(waits(plan.update().steps(0)), "s0COMM0-0 ");
  EXPECT_EQ(waits(plan.update().steps(1)), "s1COMPUTE0-0 ");
}
