// What streams do again and again as graphs: the same bits as kernel by kernel and as inline, fewer calls of the host,
// the same errors; and that the device of threads refuses to capture what a GPU's driver would.
#include "base/Failpoint.h"
#include "runtime/device/Fake.h"
#include "runtime/exec/Job.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/exec/StreamExecutor.h"
#include "runtime/exec/StreamKernels.h"
#include "runtime/plan/Walk.h"
#include "test/base/AllocationCount.h"
#include "test/runtime/ExpectOk.h"
#include "test/runtime/Outcome.h"
#include "test/runtime/TestPlan.h"
#include "test/support/Sanitized.h"

#include <gtest/gtest.h>
#include <map>
#include <tuple>

using namespace zc;
using zc::test::expectOk;

namespace {

struct Issued : test::Outcome {
  uint64_t steady = 0; // calls of rank 0's last step
  std::vector<std::string> notes;
};

/// Steps on the device of threads, or inline.
/// `starved`: there is no memory for what rank 0 first asks for in that step.
Status run(const planpb::Plan &plan, DeviceKind device, bool graphs, int64_t steps, Issued &outcome,
           int64_t starved = 0) {
  KernelRegistry registry = test::testKernels();
  return runJob(meshOf(plan), [&](Communicator &communicator) -> Status {
    const Mesh &mesh = communicator.mesh();
    test::TestLoader loader(mesh.indexOf(mesh.dataAxes(), communicator.rank()));
    ExecutorOptions options;
    options.device = device;
    options.graphs = graphs;
    options.nvme.folder = testing::TempDir();
    std::atomic<uint64_t> enqueued{0};
    auto executor = device == DeviceKind::fake
                        ? prepareOnDevice(makeFakeDevice(registry, {plan.seed(), communicator.rank(), &enqueued}), plan,
                                          options, communicator, registry, loader)
                        : prepareRank(plan, options, communicator, registry, loader);
    ZC_RETURN_IF_ERROR(executor.status());
    for (int64_t step = 1; step <= steps; ++step) {
      uint64_t before = enqueued;
      if (step == starved && communicator.rank() == 0)
        test::failNextAllocation();
      Status status = (*executor)->runStep({step, 0, 0.01 * static_cast<double>(step)});
      if (test::takeFailedAllocation())
        outcome.notes.push_back("starved");
      ZC_RETURN_IF_ERROR(status);
      if (communicator.rank() == 0) {
        outcome.losses.push_back((*executor)->loss().value());
        outcome.steady = enqueued - before;
      }
    }
    ZC_RETURN_IF_ERROR((*executor)->drain());
    if (communicator.rank() == 0) {
      outcome.state = test::persistentBytes(**executor);
      outcome.notes = (*executor)->lateNotes();
    }
    return {};
  });
}

/// Inline, as graphs, and kernel by kernel; what the last two ask of streams.
std::pair<uint64_t, uint64_t> compare(const planpb::Plan &plan, const std::string &what) {
  Issued inlined, graphs, none;
  expectOk(run(plan, DeviceKind::sync, true, 6, inlined));
  expectOk(run(plan, DeviceKind::fake, true, 6, graphs));
  expectOk(run(plan, DeviceKind::fake, false, 6, none));
  EXPECT_TRUE(graphs == inlined) << what;
  EXPECT_TRUE(none == inlined) << what;
  EXPECT_LE(graphs.steady, none.steady) << what;
  return {graphs.steady, none.steady};
}

/// `links` steps one behind the other on COMPUTE in each section, each of which depends on the context.
test::PlanBuilder chain(uint32_t accumulation, int links, const char *kernel = "mix") {
  test::PlanBuilder b(1, accumulation);
  uint32_t bytes = b.type(planpb::U8, {256});
  b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 8, true));
  uint32_t a = b.slice("a", 256, true), c = b.slice("c", 256, true);
  for (uint32_t section : {0u, 1u})
    for (int i = 0; i < links; ++i) {
      bool fails = i == links / 2 && std::string(kernel) != "mix";
      if (fails)
        b.step(section, planpb::COMPUTE, kernel, 1, {b.operand(a, bytes, planpb::READ)});
      b.step(section, planpb::COMPUTE, "mix", 1,
             {b.operand(i % 2 ? a : c, bytes, planpb::READ), b.operand(i % 2 ? c : a, bytes, planpb::READ_WRITE)});
    }
  return b;
}

} // namespace

TEST(Graphs, HaveTheBitsOfEveryOtherWay) {
  for (int world : {1, 2, 4})
    for (int accumulation : {1, 2, 3}) {
      std::string what = std::to_string(world) + " ranks, " + std::to_string(accumulation) + " micro-steps";
      compare(test::tinyPlan(static_cast<uint32_t>(world), static_cast<uint32_t>(accumulation)), what);
      for (uint64_t after : {0, 3}) {
        planpb::Plan plan =
            test::delayedPlanWithoutWaits(static_cast<uint32_t>(world), static_cast<uint32_t>(accumulation), after);
        expectOk(addWaits(plan));
        compare(plan, what + ", delayed after " + std::to_string(after));
      }
    }
}

TEST(Graphs, OfRandomPlansHaveTheirBits) {
  constexpr uint32_t kPlans = test::kIsSanitized ? 20 : 40;
  uint32_t fewer = 0;
  for (uint32_t seed = 300; seed < 300 + kPlans; ++seed) {
    planpb::Plan plan = test::randomPlan(seed, 60, 1 + seed % 3);
    expectOk(addWaits(plan));
    auto [graphs, none] = compare(plan, "seed " + std::to_string(seed));
    fewer += graphs < none;
  }
  EXPECT_GT(fewer, kPlans * 3 / 4);
}

/// The host's calls do not grow with the number of kernels.
TEST(Graphs, AreOneCallHoweverManyKernels) {
  for (uint32_t accumulation : {1u, 4u})
    for (int links : {10, 100}) {
      test::PlanBuilder b = chain(accumulation, links);
      expectOk(addWaits(b.plan));
      auto [graphs, none] = compare(b.plan, std::to_string(links) + " kernels");
      // An iteration: the contexts' copy, its record, a wait for it. A section: its kernels and a call of the host. A
      // micro-step: its context.
      uint64_t around = 3 + (accumulation + 1) + accumulation;
      EXPECT_EQ(none, around + (accumulation + 1) * static_cast<uint64_t>(links));
      EXPECT_EQ(graphs, around + accumulation + 1);
    }
}

/// What comes from the host is a copy in the stream's order and no call of the host; what it is copied from is not
/// filled again before that.
TEST(Graphs, StandBesideInputsThatAreOneCopy) {
  for (uint32_t accumulation : {1u, 7u}) {
    constexpr uint64_t kLinks = 4;
    test::PlanBuilder b = chain(accumulation, kLinks);
    uint32_t floats = b.type(planpb::F32, {64}), bytes = b.type(planpb::U8, {256}), x = b.slice("x", 256, false);
    planpb::Input &input = *b.plan.add_inputs();
    input.set_name("x");
    input.set_type(floats);
    b.integer(b.step(0, planpb::COMPUTE, "load_input", 0, {b.operand(x, floats, planpb::WRITE)}), "input", 0);
    b.step(0, planpb::COMPUTE, "mix", 1, {b.operand(x, bytes, planpb::READ), b.operand(1, bytes, planpb::READ_WRITE)});
    expectOk(addWaits(b.plan));
    const uint64_t calls = compare(b.plan, std::to_string(accumulation) + " micro-steps").second;
    EXPECT_EQ(calls, 3 + 2 * accumulation + 1 + (accumulation + 1) * kLinks + 2 * accumulation);
  }
}

/// A library that does what may not be captured costs speed, and not the run.
TEST(Graphs, ThatCannotBeCapturedGoStepByStep) {
  test::PlanBuilder b = chain(2, 10);
  expectOk(addWaits(b.plan));
  Issued inlined, none;
  expectOk(run(b.plan, DeviceKind::sync, true, 6, inlined));
  expectOk(run(b.plan, DeviceKind::fake, false, 6, none));
  EXPECT_TRUE(none.notes.empty());
  for (const char *rule : {"stream.capture:EIO", "stream.capture@n=1:EIO"}) { // of both sections, of one
    Issued refused;
    expectOk(setFailpoints(rule));
    expectOk(run(b.plan, DeviceKind::fake, true, 6, refused));
    expectOk(setFailpoints(""));
    EXPECT_TRUE(refused == inlined) << rule;
    ASSERT_EQ(refused.notes.size(), 1u) << rule;
    EXPECT_NE(refused.notes[0].find("a stream's work cannot be captured"), std::string::npos) << refused.notes[0];
    EXPECT_EQ(refused.steady < none.steady, std::string(rule) == "stream.capture@n=1:EIO") << rule;
  }
}

TEST(Graphs, FindTheStepThatFails) {
  test::PlanBuilder b = chain(2, 10, "test_fail"); // in step 2, micro-step 1: the first section's third replay
  expectOk(addWaits(b.plan));
  for (bool graphs : {true, false}) {
    Issued outcome;
    Status status = run(b.plan, DeviceKind::fake, graphs, 5, outcome);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::numeric) << render(status.error());
    EXPECT_EQ(status.error().where, "tiny: node \"node of test_fail\"");
  }
}

/// Others wait for what is not issued: they must learn of it before anything unwinds, which waits for them.
TEST(Graphs, NoMemoryWhileIssuingEndsTheJob) {
  for (int world : {1, 2})
    for (int64_t step : {1, 2}) { // one by one, captured
      Issued outcome;
      Status status = run(test::tinyPlan(static_cast<uint32_t>(world), 2), DeviceKind::fake, true, 5, outcome, step);
      ASSERT_FALSE(status.ok()) << world << " ranks, step " << step;
      EXPECT_EQ(outcome.notes, std::vector<std::string>{"starved"});
      EXPECT_EQ(status.error().code, Code::budget) << render(status.error());
    }
}

namespace {

/// What a run of `plan` traced: by step, micro-step, section and index.
using Traced = std::map<std::tuple<int64_t, uint32_t, uint32_t, uint32_t>, TraceEvent>;
Traced traced(const planpb::Plan &plan, DeviceKind device, int64_t first, int64_t last) {
  KernelRegistry registry = test::testKernels();
  Traced found;
  expectOk(runJob(meshOf(plan), [&](Communicator &communicator) -> Status {
    test::TestLoader loader(0);
    ExecutorOptions options;
    options.device = device;
    options.nvme.folder = testing::TempDir();
    options.traceCapacity = 10000;
    options.traceFirst = first;
    options.traceLast = last;
    auto executor = prepareRank(plan, options, communicator, registry, loader);
    ZC_RETURN_IF_ERROR(executor.status());
    for (int64_t step = 1; step <= 6; ++step)
      ZC_RETURN_IF_ERROR((*executor)->runStep({step, 0, 0.01}));
    ZC_RETURN_IF_ERROR((*executor)->drain());
    for (const TraceEvent &event : (*executor)->takeTrace())
      EXPECT_TRUE(found.insert({{event.step, event.micro, event.section, event.index}, event}).second);
    EXPECT_TRUE((*executor)->takeTrace().empty());
    return {};
  }));
  return found;
}

} // namespace

/// Some steps of a run are traced, by the device's clock, and the others are graphs.
TEST(Graphs, StepsAreTimedOneByOne) {
  for (uint32_t seed : {300u, 301u, 302u}) {
    planpb::Plan plan = test::randomPlan(seed, 60, 1 + seed % 3);
    expectOk(addWaits(plan));
    Traced fake = traced(plan, DeviceKind::fake, 3, 4), cpu = traced(plan, DeviceKind::cpu, 3, 4);
    EXPECT_EQ(fake.size(), 2u * (plan.accumulation() * static_cast<uint32_t>(plan.micro().steps_size()) +
                                 static_cast<uint32_t>(plan.update().steps_size())));
    for (const auto &[place, event] : cpu)
      EXPECT_EQ(fake.count(place), 1u);
    int waited = 0;
    for (const auto &[place, event] : fake) {
      EXPECT_LE(event.begin, event.end);
      const planpb::Step &step = sectionOf(plan, event.section).steps(static_cast<int>(event.index));
      for (const planpb::Wait &wait : step.waits()) {
        if (wait.section() != event.section || wait.distance() > 0 || !isStreamQueue(step.queue()) ||
            !isStreamQueue(wait.queue()))
          continue;
        uint32_t index = 0, ordinal = 0;
        for (const planpb::Step &other : sectionOf(plan, event.section).steps()) {
          if (other.queue() == wait.queue() && ordinal++ == wait.ordinal())
            break;
          ++index;
        }
        EXPECT_LE(fake.at({event.step, event.micro, event.section, index}).end, event.begin);
        ++waited;
      }
    }
    EXPECT_GT(waited, 0);
  }
}

/// A device of threads and one stream of it.
class Captured : public testing::Test {
protected:
  KernelRegistry registry = test::testKernels();
  std::unique_ptr<Device> device = makeFakeDevice(registry, {});
  std::unique_ptr<Stream> stream = std::move(*device->makeStream());
  std::unique_ptr<Event> event = std::move(*device->makeEvent());
  char *memory = static_cast<char *>(*device->allocate(64));
  char *pinned = static_cast<char *>(*device->allocatePinned(64));

  static void refuses(const Status &status, const std::string &what) {
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_EQ(status.error().message, "a stream that is being captured is asked to " + what);
  }
};

TEST_F(Captured, WorkIsDoneWhenItIsReplayedAndEachTime) {
  expectOk(stream->beginCapture());
  expectOk(stream->copy(memory + 1, memory, 1));
  expectOk(stream->copy(pinned, memory, 2));
  auto graph = stream->endCapture();
  ASSERT_TRUE(graph.ok());
  for (char value : {'a', 'b', 'c'}) {
    expectOk(device->write(memory, &value, 1));
    EXPECT_NE(pinned[1], value);
    expectOk(stream->replay(**graph));
    expectOk(stream->drain());
    EXPECT_EQ(std::string(pinned, 2), std::string(2, value));
  }
}

TEST_F(Captured, StreamsDoNotWaitNorCallNorAllocate) {
  Timeline timeline;
  char stack[8];
  expectOk(stream->beginCapture());
  refuses(stream->record(*event), "record an event that others wait for");
  refuses(stream->stamp(**device->makeStamp()), "keep a time");
  refuses(stream->wait(*event), "wait for another stream");
  refuses(stream->wait(timeline, 1), "wait for the host");
  refuses(stream->call([](void *) {}, nullptr), "call the host");
  refuses(stream->drain(), "finish its work");
  refuses(stream->copy(memory, stack, 8), "copy memory of the host that is not pinned");
  refuses(stream->beginCapture(), "begin");
  refuses(device->allocate(8).status(), "allocate");
  refuses(device->allocatePinned(8).status(), "allocate pinned memory");
  refuses(device->read(stack, memory, 8), "wait for a copy");
  refuses(device->write(memory, stack, 8), "wait for a copy");
  expectOk(stream->endCapture().status());
  expectOk(stream->copy(memory, pinned, 8));
  expectOk(stream->drain());
  EXPECT_FALSE(stream->endCapture().ok());
}
