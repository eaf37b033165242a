#include "runtime/comm/Inproc.h"
#include "runtime/exec/Job.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/Walk.h"
#include "test/base/AllocationCount.h"
#include "test/runtime/ExpectOk.h"
#include "test/runtime/RunPlan.h"
#include "test/runtime/TestPlan.h"
#include "test/support/Sanitized.h"

#include <atomic>
#include <gtest/gtest.h>
#include <map>

using namespace zc;
using zc::test::expectOk;

namespace {

using test::contextOf;
using test::kDevices;
using test::Outcome;
using test::runPlan;
using test::runUnverified;

/// What tinyPlan computes, in plain loops; fp32 in the same order. After step `after` parameters are an update old.
std::vector<double> oracle(int world, int accumulation, int64_t steps, int64_t after = INT64_MAX) {
  uint64_t n = (128 / static_cast<uint64_t>(world) + 63) / 64 * 64 * static_cast<uint64_t>(world);
  std::vector<float> p(n), weights(n);
  std::vector<double> losses;
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<float> state(n);
    std::vector<double> sums(static_cast<size_t>(world));
    for (int micro = 0; micro < accumulation; ++micro) {
      std::vector<float> sum(n);
      for (int rank = 0; rank < world; ++rank) {
        float loss = 0;
        for (uint64_t i = 0; i < n; ++i) {
          float g = (p[i] + 1) * test::TestLoader::element({step, micro, 0}, rank, i);
          loss += g;
          sum[i] = rank == 0 ? g : sum[i] + g;
        }
        sums[static_cast<size_t>(rank)] += loss;
      }
      for (uint64_t i = 0; i < n; ++i)
        state[i] = state[i] + sum[i] * static_cast<float>(1.0 / (world * accumulation));
    }
    double total = sums[0];
    for (int rank = 1; rank < world; ++rank)
      total += sums[static_cast<size_t>(rank)];
    losses.push_back(total / (world * accumulation));
    if (step > after)
      p = weights;
    for (uint64_t i = 0; i < n; ++i)
      weights[i] -= 0.01f * state[i];
    if (step <= after)
      p = weights;
  }
  return losses;
}

} // namespace

/// A model axis: its ranks have the same samples and each a part of the work; data-parallel ranks are cut as without
/// it.
TEST(Executor, AModelAxisGivesTheParametersOfItsDataParallelRanks) {
  for (uint32_t accumulation : {1, 2})
    for (const Mesh &mesh : {Mesh({{"node", 2}, {"local", 2}, {"model", 2, false}}),
                             Mesh({{"node", 1}, {"local", 2}, {"model", 4, false}}),
                             Mesh({{"local", 1}, {"model", 2, false}}), Mesh({{"local", 3}, {"model", 1, false}})})
      for (DeviceKind device : kDevices) {
        Outcome whole, shared;
        expectOk(runPlan(test::tinyPlan(static_cast<uint32_t>(mesh.dataDegree()), accumulation), device, 4, whole));
        std::mutex mutex;
        std::vector<std::string> parameters;
        expectOk(runPlan(test::modelPlan(mesh, accumulation), device, 4, shared, [&](RankExecutor &executor) {
          std::string bytes(executor.plan().slices(0).bytes(), '\0');
          expectOk(executor.readSlice(0, 0, bytes.data(), bytes.size()));
          std::lock_guard<std::mutex> lock(mutex);
          parameters.push_back(bytes);
        }));
        ASSERT_EQ(parameters.size(), static_cast<size_t>(mesh.worldSize()));
        for (const std::string &bytes : parameters)
          EXPECT_EQ(bytes, whole.state.substr(0, bytes.size())); // the parameters are the first slice
        ASSERT_EQ(whole.losses.size(), shared.losses.size());
        for (size_t step = 0; step < whole.losses.size(); ++step) // summed in another order
          EXPECT_NEAR(shared.losses[step], whole.losses[step], 1e-5 * std::abs(whole.losses[step]));
      }
}

TEST(Executor, AJobOnAnotherMeshIsRefused) {
  planpb::Plan plan = test::tinyPlan(4, 1);
  KernelRegistry registry = test::testKernels();
  Status status = runJob(Mesh::ofNodes(4, 2), [&](Communicator &communicator) -> Status {
    test::TestLoader loader(communicator.rank());
    return prepareRank(plan, {}, communicator, registry, loader).status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::mismatch);
}

TEST(Executor, TinyPlanIsItsOracleOnAllDevices) {
  for (int world : {1, 2, 3, 4, 8})
    for (int accumulation : {1, 2, 3}) {
      planpb::Plan plan = test::tinyPlan(static_cast<uint32_t>(world), static_cast<uint32_t>(accumulation));
      Outcome sync, cpu, fake;
      expectOk(runPlan(plan, DeviceKind::sync, 6, sync));
      expectOk(runPlan(plan, DeviceKind::cpu, 6, cpu));
      expectOk(runPlan(plan, DeviceKind::fake, 6, fake));
      EXPECT_EQ(sync.losses, oracle(world, accumulation, 6));
      EXPECT_TRUE(sync == cpu) << world << " ranks, " << accumulation << " micro-steps";
      EXPECT_TRUE(sync == fake) << world << " ranks, " << accumulation << " micro-steps";
    }
}

TEST(Executor, ADelayedUpdateIsItsOracleOnAllDevices) {
  for (int world : {1, 2, 3})
    for (int accumulation : {1, 3})
      for (int64_t after : {0, 3, 8}) {
        planpb::Plan plan = test::delayedPlanWithoutWaits(static_cast<uint32_t>(world),
                                                          static_cast<uint32_t>(accumulation), uint64_t(after));
        expectOk(addWaits(plan));
        Outcome sync, cpu, fake;
        expectOk(runPlan(plan, DeviceKind::sync, 8, sync));
        expectOk(runPlan(plan, DeviceKind::cpu, 8, cpu));
        expectOk(runPlan(plan, DeviceKind::fake, 8, fake));
        EXPECT_TRUE(sync == fake) << world << " ranks, " << accumulation << " micro-steps, delayed after " << after;
        EXPECT_EQ(sync.losses, oracle(world, accumulation, 8, after)) << world << " ranks, delayed after " << after;
        EXPECT_TRUE(sync == cpu) << world << " ranks, " << accumulation << " micro-steps, delayed after " << after;
      }
  EXPECT_NE(oracle(1, 1, 8, 3), oracle(1, 1, 8));
}

TEST(Executor, AFailureWhilePublishingIsFoundInEitherPlace) {
  for (DeviceKind device : kDevices)
    for (uint64_t after : {0, 8}) {
      test::PlanBuilder b(2, 2);
      b.plan = test::delayedPlanWithoutWaits(2, 2, after);
      b.step(1, planpb::COMPUTE, "test_fail", 1, {b.operand(0, 3, planpb::READ)}).set_publishes(true);
      expectOk(addWaits(b.plan));
      Outcome outcome;
      Status status = runPlan(b.plan, device, 5, outcome);
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, Code::numeric) << render(status.error());
      EXPECT_EQ(status.error().where, "tiny: node \"node of test_fail\"");
    }
}

TEST(Executor, RandomPlansGiveTheSameBitsOnAllDevices) {
  std::string last;
  for (uint32_t seed = 100; seed < (test::kIsSanitized ? 150u : 300u); ++seed) {
    planpb::Plan plan = test::randomPlan(seed, 60, 1 + seed % 3);
    expectOk(addWaits(plan));
    Outcome sync, cpu, fake;
    expectOk(runPlan(plan, DeviceKind::sync, 3, sync));
    expectOk(runPlan(plan, DeviceKind::cpu, 3, cpu));
    expectOk(runPlan(plan, DeviceKind::fake, 3, fake));
    ASSERT_EQ(sync.state, cpu.state) << "seed " << seed;
    ASSERT_EQ(sync.state, fake.state) << "seed " << seed;
    EXPECT_NE(sync.state, last);
    last = sync.state;
  }
}

TEST(Executor, ASteadyStepAllocatesNothing) {
  for (DeviceKind device : {DeviceKind::sync, DeviceKind::cpu}) {
    planpb::Plan plan = test::tinyPlan(4, 3);
    KernelRegistry registry = test::testKernels();
    std::atomic<uint64_t> before{0}, after{0};
    expectOk(runJob(Mesh::ofNodes(4, 4), [&](Communicator &communicator) -> Status {
      test::TestLoader loader(communicator.rank());
      ExecutorOptions options;
      options.device = device;
      options.traceCapacity = 16;
      auto executor = prepareRank(plan, options, communicator, registry, loader);
      if (!executor)
        return executor.error();
      ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(1)));
      ZC_RETURN_IF_ERROR((*executor)->drain());
      ZC_RETURN_IF_ERROR(communicator.barrier());
      if (communicator.rank() == 0)
        before = test::allocations();
      ZC_RETURN_IF_ERROR(communicator.barrier());
      for (int64_t step = 2; step < 20; ++step)
        ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(step)));
      ZC_RETURN_IF_ERROR((*executor)->drain());
      ZC_RETURN_IF_ERROR(communicator.barrier());
      if (communicator.rank() == 0)
        after = test::allocations();
      return communicator.barrier();
    }));
    EXPECT_GT(before.load(), 0u);
    EXPECT_EQ(after.load(), before.load());
  }
}

TEST(Executor, TheFirstFailureIsReportedWithItsNode) {
  for (DeviceKind device : kDevices) {
    test::PlanBuilder b(3, 2);
    b.plan = test::tinyPlanWithoutWaits(3, 2);
    b.integer(b.step(0, planpb::COMPUTE, "test_fail", 1, {b.operand(0, 3, planpb::READ)}), "rank", 1);
    expectOk(addWaits(b.plan));
    Outcome outcome;
    Status status = runPlan(b.plan, device, 5, outcome);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::numeric);
    EXPECT_EQ(status.error().where, "tiny: node \"node of test_fail\"");
    EXPECT_EQ(status.error().note, "on rank 1");
    // The second step failed. A device with streams tells so with its metrics, when other ranks may have theirs.
    EXPECT_LE(outcome.losses.size(), device == DeviceKind::fake ? 2u : 1u);
  }
}

TEST(Executor, WhatAKernelThrowsIsAnError) {
  for (DeviceKind device : kDevices) {
    test::PlanBuilder b(2, 1);
    b.plan = test::tinyPlanWithoutWaits(2, 1);
    b.integer(b.step(1, planpb::COMM, "test_fail", 1, {b.operand(0, 3, planpb::READ)}), "throw", 1);
    expectOk(addWaits(b.plan));
    Outcome outcome;
    Status status = runPlan(b.plan, device, 5, outcome);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::internal);
    EXPECT_NE(status.error().message.find("from a library"), std::string::npos);
  }
}

/// A step that sleeps for 300 ms at the end of the update, on HOST_COMPUTE, and changes the state; and, next step, one
/// on the same queue that reads it.
planpb::Plan planWithTail(const char *kernel) {
  test::PlanBuilder b(2, 2);
  b.plan = test::tinyPlanWithoutWaits(2, 2);
  uint32_t kept = b.slice("kept", 256, true, -1, planpb::HOST), bytes = b.type(planpb::U8, {256});
  b.step(1, planpb::HOST_COMPUTE, kernel, 0, {b.operand(kept, bytes, planpb::READ_WRITE)});
  EXPECT_TRUE(addWaits(b.plan).ok());
  return b.plan;
}

TEST(Executor, AStepEndsWithItsMetricsAndItsTailRunsBesideTheNext) {
  planpb::Plan plan = planWithTail("test_slow");
  KernelRegistry registry = test::testKernels();
  expectOk(runJob(Mesh::ofNodes(2, 2), [&](Communicator &communicator) -> Status {
    test::TestLoader loader(communicator.rank());
    ExecutorOptions options;
    options.traceCapacity = 1000;
    auto executor = prepareRank(plan, options, communicator, registry, loader);
    if (!executor)
      return executor.error();
    for (int64_t step = 1; step <= 5; ++step)
      ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(step)));
    ZC_RETURN_IF_ERROR((*executor)->drain());
    // Steps of 2 began while the slow one of 1 was at work; never more than two steps are under way.
    std::map<int64_t, TraceEvent> slow;
    int beside = 0;
    std::vector<TraceEvent> events = (*executor)->takeTrace();
    for (const TraceEvent &event : events)
      if (event.queue == planpb::HOST_COMPUTE)
        slow[event.step] = event;
    EXPECT_EQ(slow.size(), 5u);
    for (const TraceEvent &event : events) {
      beside += event.step == 2 && event.begin < slow[1].end;
      EXPECT_TRUE(event.step <= 2 || event.begin >= slow[event.step - 2].end);
    }
    EXPECT_GT(beside, 0); // how many depends on what else the machine does
    return {};
  }));
}

TEST(Executor, ATailGivesTheSameBitsAndItsFailureIsFound) {
  Outcome sync, cpu;
  planpb::Plan plan = planWithTail("mix");
  expectOk(runPlan(plan, DeviceKind::sync, 50, sync));
  expectOk(runPlan(plan, DeviceKind::cpu, 50, cpu));
  EXPECT_TRUE(sync == cpu);
  for (DeviceKind device : kDevices) {
    Outcome outcome;
    planpb::Plan failing = planWithTail("test_fail"); // in its second step, at the second micro-step
    Status status = runPlan(failing, device, 5, outcome);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::numeric) << render(status.error());
    EXPECT_EQ(status.error().where, "tiny: node \"node of test_fail\"");
  }
}

TEST(Executor, RanksAgreeOncePerStepAmongTheCollectives) {
  planpb::Plan plan = test::tinyPlan(3, 2);
  KernelRegistry registry = test::testKernels();
  for (DeviceKind device : kDevices)
    expectOk(runJob(Mesh::ofNodes(3, 3), [&](Communicator &communicator) -> Status {
      test::TestLoader loader(communicator.rank());
      ExecutorOptions options;
      options.device = device;
      int64_t said = 0, heard = 0;
      options.agree = [&]() -> Status {
        heard = said;
        return communicator.broadcast({&heard, sizeof heard, 1});
      };
      auto executor = prepareRank(plan, options, communicator, registry, loader);
      if (!executor)
        return executor.error();
      for (int64_t step = 1; step <= 20; ++step) {
        said = communicator.rank() == 1 ? step : 0;
        ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(step)));
        EXPECT_EQ(heard, step);
      }
      return (*executor)->drain();
    }));
}

/// The device of threads finds what a wait too few leaves to luck: in some order two kernels meet, or bits differ.
TEST(Executor, AMissingWaitIsFoundOnTheFakeDevice) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it races, which is its point";
#endif
  int found = 0;
  for (uint32_t seed = 0; seed < 5; ++seed) {
    planpb::Plan plan = test::randomPlan(seed, 60, 2), bare = plan;
    expectOk(addWaits(plan));
    Outcome sync, fake;
    expectOk(runPlan(plan, DeviceKind::sync, 6, sync));
    Status status = runUnverified(bare, DeviceKind::fake, 6, fake);
    found += !status.ok() || fake.state != sync.state;
  }
  EXPECT_GT(found, 0);
}

TEST(Executor, PrepareRefusesWhatItCannotRun) {
  Outcome none;
  test::PlanBuilder b(1, 1);
  b.plan = test::tinyPlanWithoutWaits(1, 1);
  b.step(1, planpb::COMPUTE, "no_such_kernel", 1, {b.operand(0, 3, planpb::READ)});
  expectOk(addWaits(b.plan));
  Status unknown = runPlan(b.plan, DeviceKind::sync, 1, none);
  EXPECT_EQ(unknown.error().code, Code::corrupt);
  EXPECT_NE(unknown.error().message.find("no_such_kernel"), std::string::npos);

  planpb::Plan huge = test::tinyPlan(1, 1);
  huge.mutable_arenas(0)->set_bytes(uint64_t(1) << 50);
  EXPECT_EQ(runPlan(huge, DeviceKind::cpu, 1, none).error().code, Code::budget);

  planpb::Plan plan = test::tinyPlan(2, 1);
  KernelRegistry registry = test::testKernels();
  Status world = runJob(Mesh::ofNodes(3, 3), [&](Communicator &communicator) -> Status {
    test::TestLoader loader(communicator.rank());
    return prepareRank(plan, {}, communicator, registry, loader).status();
  });
  EXPECT_EQ(world.error().code, Code::mismatch);
}

/// tinyPlan of three ranks with "test_reverse" between halves of each rank's part of x.
static planpb::Plan reversingPlan(uint64_t from, uint64_t to, const std::string &note = {}) {
  test::PlanBuilder b(3, 1);
  b.plan = test::tinyPlanWithoutWaits(3, 1);
  constexpr uint32_t kX = 3;
  const uint64_t bytes = b.plan.slices(kX).bytes() / 3 / 2; // of half a shard
  uint32_t half = b.type(planpb::F32, {static_cast<int64_t>(bytes / 4)});
  const std::vector<uint64_t> own = b.ownStrides(b.mesh.dataAxes(), 2 * bytes);
  for (int i = 0; i < 3; ++i) {
    planpb::Step &step = b.step(
        0, planpb::COMPUTE, "test_reverse", 1,
        {b.operand(kX, half, planpb::READ, from * bytes, own), b.operand(kX, half, planpb::WRITE, to * bytes, own)});
    if (!note.empty())
      b.text(step, "note", note);
  }
  expectOk(addWaits(b.plan));
  return b.plan;
}

TEST(Executor, RefusesKernelsInPlaceThatCannotWorkSo) {
  Outcome outcome;
  expectOk(runPlan(reversingPlan(0, 1), DeviceKind::sync, 1, outcome));
  for (uint64_t half : {0, 1}) {
    Status status = runPlan(reversingPlan(half, half), DeviceKind::sync, 1, outcome);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().number, 709) << status.error().message;
    EXPECT_EQ(status.error().code, Code::corrupt);
  }
}

TEST(Executor, SaysOnceWhatManyKernelsNote) {
  Outcome outcome;
  expectOk(runPlan(reversingPlan(1, 0, "walks backwards"), DeviceKind::cpu, 1, outcome, [](RankExecutor &executor) {
    ASSERT_EQ(executor.notes().size(), 1u);
    EXPECT_NE(executor.notes()[0].find(" and 2 more: test_reverse walks backwards"), std::string::npos)
        << executor.notes()[0];
  }));
}

TEST(Executor, ReportsMemoryTrafficAndTrace) {
  planpb::Plan plan = test::tinyPlan(Mesh::ofNodes(2, 1), 3);
  KernelRegistry registry = test::testKernels();
  expectOk(runJob(meshOf(plan), [&](Communicator &communicator) -> Status {
    test::TestLoader loader(communicator.rank());
    ExecutorOptions options;
    options.traceCapacity = 1000;
    auto executor = prepareRank(plan, options, communicator, registry, loader);
    if (!executor)
      return executor.error();
    for (int64_t step = 1; step <= 2; ++step)
      ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(step)));
    ZC_RETURN_IF_ERROR((*executor)->drain());
    ArenaUse use = (*executor)->arenas().at(0);
    EXPECT_EQ(use.planned, plan.arenas(0).bytes());
    EXPECT_GE(use.mapped, use.planned);
    EXPECT_EQ(use.resident, use.mapped); // one page
    EXPECT_EQ((*executor)->traffic().gather, 2 * 512u);
    EXPECT_EQ((*executor)->traffic().reduceScatter, 2 * 3 * 512u);
    EXPECT_EQ((*executor)->traffic().interNode, 2 * 4 * 256u);
    EXPECT_EQ((*executor)->traffic().intraNode, 0u);
    std::vector<TraceEvent> events = (*executor)->takeTrace();
    EXPECT_EQ(events.size(), 2 * (3 * 4 + 3u));
    for (size_t i = 1; i < events.size(); ++i)
      EXPECT_LE(events[i - 1].begin, events[i].begin);
    EXPECT_TRUE((*executor)->takeTrace().empty());
    EXPECT_FALSE((*executor)->gradNorm());
    return {};
  }));
}
