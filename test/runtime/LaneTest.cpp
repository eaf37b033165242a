// Collectives that are enqueued on streams, of devices made of threads: the bits of those that the host does, though
// buffers are written again right behind each, and ranks run ahead of each other.
#include "kernels/Kernel.h"
#include "runtime/device/Fake.h"
#include "runtime/exec/Job.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>

using namespace zc;

namespace {

constexpr int kWorld = 4;
constexpr uint64_t kPart = 300, kWhole = kWorld * kPart;

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

/// The collectives of a round on `comm`, whose buffers are `in` and the three of `out`, one behind the other.
Status collectives(Communicator &comm, float *in, float *out, AxisSet axes) {
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
  ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
  AllReduceOptions reduce;
  reduce.input = reduce.output = in;
  reduce.elements = kWhole;
  reduce.axes = axes;
  ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
  AllToAllOptions exchange{in, out + 2 * kWhole, kWhole / members * sizeof(float)};
  exchange.axes = axes;
  return comm.allToAll(exchange);
}

constexpr int kRounds = 6;
constexpr AxisSet kAxes[] = {AxisSet::all(), AxisSet::of(0), AxisSet::of(1)}; // of Mesh::ofNodes
using Outputs = std::vector<std::vector<float>>;                              // by rank: all rounds

Outputs onHost(const Mesh &mesh) {
  Outputs outputs(kWorld);
  Status status = runJob(mesh, [&](Communicator &comm) -> Status {
    std::vector<float> out(3 * kWhole);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> in = values(comm.rank(), round);
      ZC_RETURN_IF_ERROR(collectives(comm, in.data(), out.data(), kAxes[round % 3]));
      outputs[size_t(comm.rank())].insert(outputs[size_t(comm.rank())].end(), out.begin(), out.end());
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << render(status.error());
  return outputs;
}

Status onStream(Communicator &comm, uint64_t seed, std::vector<float> &outputs) {
  std::unique_ptr<Device> device = makeFakeDevice(registry(), {seed, comm.rank()});
  constexpr uint64_t kIn = kWhole * sizeof(float), kOut = 3 * kIn;
  auto memory = device->allocate(kIn + kOut), pinned = device->allocatePinned(kRounds * (kIn + kOut));
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
    Status status = collectives(comm, in, out, kAxes[round % 3]);
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
  Outputs expected = onHost(mesh);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Outputs outputs(kWorld);
    Status status = runJob(mesh, [&](Communicator &comm) {
      return onStream(comm, seed * kWorld + uint64_t(comm.rank()), outputs[size_t(comm.rank())]);
    });
    ASSERT_TRUE(status.ok()) << render(status.error());
    ASSERT_EQ(outputs, expected) << "seed " << seed;
  }
}

TEST(Lane, AFailureIsEverybodys) {
  std::atomic<int> told{0};
  Status status = runJob(Mesh::ofNodes(kWorld, 2), [&](Communicator &comm) -> Status {
    if (comm.rank() == 2)
      return makeError(Code::io, 1, "rank 2 has had enough");
    std::vector<float> outputs;
    Status own = onStream(comm, 7, outputs);
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
