// Collectives that are enqueued on streams, of devices made of threads: the bits of those that the host does, though
// buffers are written again right behind each, and ranks run ahead of each other. Of ranks in one process, which read
// each other's memory, and of ranks that send each other messages, as processes with NCCL do.
#include "kernels/Kernel.h"
#include "runtime/comm/Staging.h"
#include "runtime/device/Fake.h"
#include "runtime/exec/DeviceJob.h"
#include "runtime/exec/Job.h"
#include "test/runtime/LinksDouble.h"
#include "test/runtime/TestPlan.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace zc;

namespace {

constexpr int kWorld = 4;
constexpr uint64_t kPart = 9000, kWhole = kWorld * kPart;

const KernelRegistry &registry() {
  static const KernelRegistry all = [] {
    KernelRegistry made;
    registerReferenceKernels(made);
    return made;
  }();
  return all;
}

std::vector<float> values(int rank, int round) {
  std::vector<float> made(kWhole);
  for (uint64_t i = 0; i < kWhole; ++i)
    made[i] = static_cast<float>((i * 7919 + uint64_t(rank * 104729 + round * 611953)) % 1000003) / 37 - 13000;
  return made;
}

/// What sums over all or fewer ranks stage.
constexpr uint64_t kStaged = 4 * kStagedBytes;

/// The collectives of a round on `comm`, whose buffers are `in` and the three of `out`, one behind the other.
Status collectives(Communicator &comm, float *in, float *out, void *work, uint64_t workBytes, AxisSet axes) {
  auto members = uint64_t(comm.mesh().size(axes));
  AllGatherOptions gather{in, out, kWhole / members * sizeof(float)};
  gather.axes = axes;
  ZC_RETURN_IF_ERROR(comm.allGather(gather));
  ReduceScatterOptions scatter;
  scatter.input = in;
  scatter.output = out + kWhole;
  scatter.elements = kWhole / members;
  scatter.scale = 0.5;
  scatter.accumulate = true;
  scatter.axes = axes;
  scatter.workspace = work;
  scatter.workspaceBytes = workBytes;
  ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
  AllReduceOptions reduce;
  reduce.input = reduce.output = in;
  reduce.elements = kWhole;
  reduce.axes = axes;
  reduce.workspace = work;
  reduce.workspaceBytes = workBytes;
  ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
  reduce.elements = 101; // a small one
  ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
  AllToAllOptions exchange{in, out + 2 * kWhole, kWhole / members * sizeof(float)};
  exchange.axes = axes;
  return comm.allToAll(exchange);
}

constexpr int kRounds = 6;
constexpr AxisSet kAxes[] = {AxisSet::all(), AxisSet::of(0), AxisSet::of(1)}; // of Mesh::ofNodes
using Results = std::vector<std::vector<float>>;                              // by rank: all rounds

Results onHost(const Mesh &mesh) {
  Results outputs(kWorld);
  Status status = runJob(mesh, [&](Communicator &comm) -> Status {
    std::vector<float> out(3 * kWhole);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> in = values(comm.rank(), round);
      ZC_RETURN_IF_ERROR(collectives(comm, in.data(), out.data(), nullptr, 0, kAxes[round % 3]));
      outputs[size_t(comm.rank())].insert(outputs[size_t(comm.rank())].end(), out.begin(), out.end());
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << render(status.error());
  return outputs;
}

using Devices = std::vector<std::unique_ptr<Device>>; // by rank; they outlive what peers copy from them

Status onStream(Communicator &comm, uint64_t seed, Devices &devices, std::vector<float> &outputs,
                uint64_t staged = kStaged) {
  std::unique_ptr<Device> &device = devices[size_t(comm.rank())];
  device = makeFakeDevice(registry(), {seed, comm.rank()});
  constexpr uint64_t kIn = kWhole * sizeof(float), kOut = 3 * kIn;
  auto memory = device->allocate(kIn + kOut + staged), pinned = device->allocatePinned(kRounds * (kIn + kOut));
  ZC_RETURN_IF_ERROR(memory.status());
  ZC_RETURN_IF_ERROR(pinned.status());
  auto stream = device->makeStream();
  ZC_RETURN_IF_ERROR(stream.status());
  auto lane = device->makeLane(**stream);
  ZC_RETURN_IF_ERROR(lane.status());
  auto *in = static_cast<float *>(*memory), *out = in + kWhole;
  auto *fed = static_cast<float *>(*pinned), *got = fed + kRounds * kWhole;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> mine = values(comm.rank(), round);
    std::memcpy(fed + uint64_t(round) * kWhole, mine.data(), kIn);
    // What peers still read of the last round may not be written before they have.
    ZC_RETURN_IF_ERROR((*stream)->copy(in, fed + uint64_t(round) * kWhole, kIn));
    comm.enqueueOn(lane->get());
    Status status = collectives(comm, in, out, out + 3 * kWhole, staged, kAxes[round % 3]);
    comm.enqueueOn(nullptr);
    ZC_RETURN_IF_ERROR(status);
    ZC_RETURN_IF_ERROR((*stream)->copy(got + uint64_t(round) * 3 * kWhole, out, kOut));
    if (round % 2 == 1) // the host's collectives between them, as an agreement
      ZC_RETURN_IF_ERROR(comm.barrier());
  }
  ZC_RETURN_IF_ERROR((*stream)->drain());
  outputs.assign(got, got + kRounds * 3 * kWhole);
  if (auto fault = device->fault())
    return fault->error;
  return comm.barrier();
}

} // namespace

TEST(Lane, GivesTheHostsBitsWhateverTheOrder) {
  Mesh mesh = Mesh::ofNodes(kWorld, 2);
  Results expected = onHost(mesh);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Results outputs(kWorld);
    Devices devices(kWorld);
    Status status = runJob(mesh, [&](Communicator &comm) {
      return onStream(comm, seed * kWorld + uint64_t(comm.rank()), devices, outputs[size_t(comm.rank())]);
    });
    ASSERT_TRUE(status.ok()) << render(status.error());
    ASSERT_EQ(outputs, expected) << "seed " << seed;
  }
}

TEST(Lane, AFailureIsEverybodys) {
  std::atomic<int> told{0};
  Devices devices(kWorld);
  Status status = runJob(Mesh::ofNodes(kWorld, 2), [&](Communicator &comm) -> Status {
    if (comm.rank() == 2)
      return makeError(Code::io, 1, "rank 2 has had enough");
    std::vector<float> outputs;
    Status own = onStream(comm, 7, devices, outputs);
    told += !own.ok() && own.error().code == Code::peerLost;
    return own;
  });
  EXPECT_EQ(told, kWorld - 1);
  EXPECT_EQ(status.error().message, "rank 2 has had enough");
}

TEST(Lane, ADeviceThatRefusesEndsTheJob) {
  /// Refuses its third mark.
  class Refusing : public Lane {
  public:
    Status copy(void *, const void *, uint64_t) override { return {}; }
    Status sum(const OrderedSum &) override { return {}; }
    Result<std::shared_ptr<const Event>> mark() override {
      if (++marks == 3)
        return makeError(Code::internal, 2, "no more marks");
      return std::make_shared<const Event>();
    }
    Status follow(const Event &) override { return {}; }
    int marks = 0;
  };
  Status status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status {
    Refusing lane;
    if (comm.rank() == 1)
      lane.marks = -100;
    float x = 0, all[2];
    Status own;
    comm.enqueueOn(&lane);
    for (int i = 0; i < 3 && own.ok(); ++i)
      own = comm.allGather({&x, all, sizeof x});
    comm.enqueueOn(nullptr);
    return own;
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "no more marks");
}

/// A stream that fails follows nobody: what peers enqueued reads a rank's memory until they say that nothing is at
/// work.
TEST(Lane, MemoryStaysUntilAllRanksAreQuietOrGone) {
  std::atomic<int> atWork{2};
  Status status = runJob(Mesh::ofNodes(3, 3), [&](Communicator &comm) -> Status {
    comm.awaitQuiet(); // nothing has failed
    ZC_RETURN_IF_ERROR(comm.barrier());
    Error stop = makeError(Code::other, 3, "stop");
    if (comm.rank() == 0) {
      comm.abort(stop);
    } else {
      EXPECT_FALSE(comm.barrier().ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      --atWork;
    }
    if (comm.rank() == 2)
      return stop; // its executor never was
    comm.awaitQuiet();
    EXPECT_EQ(atWork, 0);
    comm.awaitQuiet(); // of another executor of the rank
    return stop;
  });
  EXPECT_EQ(status.error().message, "stop");
}

/// Notes what is marked and followed; `whileCopying` may refuse.
class NotingLane : public Lane {
public:
  Status copy(void *, const void *, uint64_t) override { return whileCopying ? whileCopying() : Status(); }
  Status sum(const OrderedSum &) override { return {}; }
  Result<std::shared_ptr<const Event>> mark() override {
    if (beforeMark)
      beforeMark();
    last = std::make_shared<const Event>();
    ++marks;
    return last;
  }
  Status follow(const Event &event) override {
    followed = &event;
    return {};
  }
  std::function<Status()> whileCopying;
  std::function<void()> beforeMark;
  std::shared_ptr<const Event> last;
  std::atomic<int> marks{0};
  const Event *followed = nullptr;
};

/// An allGather of two ranks on these lanes.
static Status gatherOn(NotingLane (&lanes)[2], Communicator &comm) {
  float x = 0, all[2];
  comm.enqueueOn(&lanes[comm.rank()]);
  Status own = comm.allGather({&x, all, sizeof x});
  comm.enqueueOn(nullptr);
  return own;
}

/// Memory goes when a rank's own stream is through: that must come after what peers read of it, in a call that fails as
/// well.
TEST(Lane, WhatPeersEnqueuedIsFollowedAlsoInACallThatFails) {
  for (bool isRefused : {false, true}) {
    NotingLane lanes[2];
    Status status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status {
      if (comm.rank() == 0)
        lanes[0].whileCopying = [&]() -> Status {
          while (lanes[1].marks < 2) // it is through with its own copies
            std::this_thread::yield();
          Error stop = makeError(Code::other, 3, "stop");
          if (isRefused)
            return stop;
          comm.abort(stop);
          return {};
        };
      return gatherOn(lanes, comm);
    });
    EXPECT_EQ(status.error().message, "stop");
    for (int rank : {0, 1}) {
      EXPECT_EQ(lanes[rank].marks, 2);
      EXPECT_EQ(lanes[rank].followed, lanes[1 - rank].last.get());
    }
  }
}

/// A rank that finds the job failed looks at marks, while another one, which does not know yet, leaves its own: a race
/// where a sanitizer looks, since nothing but `isThrough`, relaxed, is between the two.
TEST(Lane, MarksAreLeftWhileAFailedCallLooksAtThem) {
  NotingLane lanes[2];
  std::atomic<bool> isThrough{false};
  lanes[1].beforeMark = [&] {
    while (!isThrough.load(std::memory_order_relaxed))
      std::this_thread::yield();
  };
  Status status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status {
    if (comm.rank() == 0)
      comm.abort(makeError(Code::other, 3, "stop"));
    Status own = gatherOn(lanes, comm);
    if (comm.rank() == 0)
      isThrough.store(true, std::memory_order_relaxed);
    return own;
  });
  EXPECT_EQ(status.error().message, "stop");
}

/// As onStream, over messages: a plan says along which axes.
static Status linked(Communicator &comm, LinksDouble::Job &job, const planpb::Plan &plan, uint64_t seed,
                     Devices &devices, std::vector<float> &outputs, uint64_t staged = kStaged) {
  comm.link(std::make_unique<LinksDouble>(job, comm.mesh(), comm.rank()));
  ZC_RETURN_IF_ERROR(linkDevices(comm, *makeFakeDevice(registry(), {}), plan));
  return onStream(comm, seed, devices, outputs, staged);
}

/// A plan with a collective along each of kAxes.
static planpb::Plan planOf(const Mesh &mesh) {
  test::PlanBuilder builder(mesh, 1);
  uint32_t type = builder.type(planpb::F32, {4}), slice = builder.slice("x", 16, false);
  for (AxisSet axes : kAxes)
    builder.along(
        builder.step(0, planpb::COMM, "all_reduce", 1,
                     {builder.operand(slice, type, planpb::READ), builder.operand(slice, type, planpb::WRITE)}),
        axes);
  return builder.plan;
}

TEST(Links, GiveTheHostsBitsWhateverTheOrder) {
  Mesh mesh = Mesh::ofNodes(kWorld, 2);
  Results expected = onHost(mesh);
  planpb::Plan plan = planOf(mesh);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Results outputs(kWorld);
    LinksDouble::Job job(kWorld);
    Devices devices(kWorld);
    Status status = runJob(mesh, [&](Communicator &comm) {
      return linked(comm, job, plan, seed * kWorld + uint64_t(comm.rank()), devices, outputs[size_t(comm.rank())]);
    });
    ASSERT_TRUE(status.ok()) << render(status.error());
    ASSERT_EQ(outputs, expected) << "seed " << seed;
    for (int rank = 1; rank < kWorld; ++rank) // the same order on all: NCCL would hang
      ASSERT_EQ(job.called[size_t(rank)], job.called[0]);
    EXPECT_EQ(job.opened, std::set<uint8_t>({mesh.all().asBits(), AxisSet::of(0).asBits(), AxisSet::of(1).asBits()}));
  }
}

/// Each exchange is a call of the host's: where a plan gives more staging there are fewer, and the bits are the same.
TEST(Links, MoreStagingIsFewerExchanges) {
  Mesh mesh = Mesh::ofNodes(kWorld, 2);
  planpb::Plan plan = planOf(mesh);
  Results expected = onHost(mesh);
  constexpr uint64_t kPieces = 9;
  size_t exchanges[2] = {};
  for (bool isAmple : {false, true}) {
    Results outputs(kWorld);
    LinksDouble::Job job(kWorld);
    Devices devices(kWorld);
    const uint64_t staged = isAmple ? reduceScatterStaging(kWorld, kPart, sizeof(float), Adders::devices)
                                    : kWorld * (kPart / kPieces) * sizeof(float);
    Status status = runJob(mesh, [&](Communicator &comm) {
      return linked(comm, job, plan, 3, devices, outputs[size_t(comm.rank())], staged);
    });
    ASSERT_TRUE(status.ok()) << render(status.error());
    EXPECT_EQ(outputs, expected);
    for (auto [axes, messages] : job.called[0])
      exchanges[isAmple] += messages > 0;
  }
  // Two sums in each round; along an axis of two members parts and pieces are twice as large.
  EXPECT_EQ(exchanges[0] - exchanges[1], kRounds * 2 * (kPieces - 1));
}

TEST(Links, AFailureEndsWhatIsOnItsWay) {
  Mesh mesh = Mesh::ofNodes(kWorld, 2);
  planpb::Plan plan = planOf(mesh);
  LinksDouble::Job job(kWorld);
  job.failsAt = 3;
  Devices devices(kWorld);
  std::atomic<int> told{0};
  Status status = runJob(mesh, [&](Communicator &comm) -> Status {
    std::vector<float> outputs;
    Status own = linked(comm, job, plan, 7, devices, outputs);
    told += !own.ok();
    return own;
  });
  EXPECT_EQ(told, kWorld);
  EXPECT_FALSE(status.ok());
}

TEST(Links, RanksWithoutADeviceAreNamed) {
  Status status = runJob(Mesh::ofNodes(kWorld, 2), [&](Communicator &comm) -> Status {
    Result<std::unique_ptr<Device>> own = makeFakeDevice(registry(), {1, comm.rank()});
    if (comm.rank() >= 2)
      own = makeError(Code::unsupported, 3, "there is no driver");
    Status agreed = agreeOnDevices(comm, own).status();
    EXPECT_EQ(agreed.error().code, Code::mismatch);
    EXPECT_EQ(agreed.error().message, "ranks 2, 3 have no device that can be used, ranks 0, 1 have \"threads\"");
    EXPECT_EQ(agreed.error().note, comm.rank() >= 2 ? "there is no driver" : "");
    return {};
  });
  EXPECT_TRUE(status.ok());
  status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status { // nobody has one: that is the error
    return agreeOnDevices(comm, makeError(Code::unsupported, 3, "there is no driver")).status();
  });
  EXPECT_EQ(status.error().code, Code::unsupported);
  EXPECT_EQ(describeKinds({"a", "a"}), "");
  EXPECT_EQ(describeKinds({"a", "b", "a"}),
            "ranks 0, 2 have \"a\"; rank 1 has \"b\": the slowest kind sets the pace, and "
            "only runs on the same devices give the same bits");
}
