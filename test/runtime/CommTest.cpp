#include "runtime/comm/Inproc.h"
#include "runtime/exec/Job.h"
#include "test/runtime/ExpectOk.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace zc;
using zc::test::expectOk;

namespace {

/// Values whose sums depend on the order in fp32.
template <typename T> T element(int rank, uint64_t i) {
  return static_cast<T>(static_cast<double>((i * 7919 + static_cast<uint64_t>(rank) * 104729) % 1000003) / 37 - 13000);
}

template <typename T> constexpr DType kType = DType::f32;
template <> constexpr DType kType<double> = DType::f64;
template <> constexpr DType kType<int64_t> = DType::i64;

template <typename T> T expected(int world, uint64_t i) {
  T sum = element<T>(0, i);
  for (int rank = 1; rank < world; ++rank)
    sum += element<T>(rank, i);
  return sum;
}

template <typename T> std::vector<T> filled(int rank, uint64_t n) {
  std::vector<T> values(n);
  for (uint64_t i = 0; i < n; ++i)
    values[i] = element<T>(rank, i);
  return values;
}

constexpr AxisSet kNode = AxisSet::of(0), kLocal = AxisSet::of(1); // of Mesh::ofNodes

template <typename T> void sumsOf(int world, uint64_t part) {
  uint64_t n = part * static_cast<uint64_t>(world);
  expectOk(runJob(Mesh::ofNodes(world, world), [&](Communicator &comm) -> Status {
    uint64_t first = static_cast<uint64_t>(comm.rank()) * part;
    // Reduce-scatter, out of place and then in place.
    std::vector<T> whole = filled<T>(comm.rank(), n), shard(part, T(1));
    ReduceScatterOptions scatter;
    scatter.input = whole.data();
    scatter.output = shard.data();
    scatter.elements = part;
    scatter.inputType = scatter.outputType = kType<T>;
    scatter.accumulate = true;
    ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
    scatter.output = whole.data() + first;
    scatter.accumulate = false;
    ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
    for (uint64_t i = 0; i < part; ++i) {
      EXPECT_EQ(shard[i], T(1) + expected<T>(world, first + i));
      EXPECT_EQ(whole[first + i], expected<T>(world, first + i));
    }
    // Gather in place gives the same as an all-reduce.
    ZC_RETURN_IF_ERROR(comm.allGather({whole.data() + first, whole.data(), part * sizeof(T)}));
    std::vector<T> data = filled<T>(comm.rank(), n), copy(n);
    AllReduceOptions reduce;
    reduce.input = data.data();
    reduce.output = copy.data();
    reduce.elements = n;
    reduce.type = kType<T>;
    ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
    EXPECT_EQ(copy, whole);
    reduce.output = data.data();
    ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
    EXPECT_EQ(data, whole);
    return comm.barrier();
  }));
}

} // namespace

TEST(Comm, SumsOfAllTypesAndWorlds) {
  for (int world = 1; world <= 8; ++world) {
    for (uint64_t part : {1, 3, 64, 1500}) {
      sumsOf<float>(world, part);
      sumsOf<double>(world, part);
      sumsOf<int64_t>(world, part);
    }
  }
}

TEST(Comm, SmallAllReduceWhereSomeRanksHaveNoPart) {
  for (uint64_t n : {1, 5, 24})
    expectOk(runJob(Mesh::ofNodes(8, 8), [&](Communicator &comm) -> Status {
      std::vector<int64_t> data = filled<int64_t>(comm.rank(), n);
      AllReduceOptions reduce{data.data(), data.data(), n, DType::i64};
      ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
      for (uint64_t i = 0; i < n; ++i)
        EXPECT_EQ(data[i], expected<int64_t>(8, i));
      return {};
    }));
}

TEST(Comm, BroadcastFromEachRoot) {
  for (int root = 0; root < 3; ++root)
    expectOk(runJob(Mesh::ofNodes(3, 1), [&](Communicator &comm) -> Status {
      std::vector<double> data = filled<double>(comm.rank(), 100);
      ZC_RETURN_IF_ERROR(comm.broadcast({data.data(), 800, root}));
      EXPECT_EQ(data, filled<double>(root, 100));
      return {};
    }));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // whose threads cannot do without address space
/// Exit code 0 when it is the right error.
static void runWithFewThreads() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t(100) << 20);
  rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
  Status status = runJob(Mesh::ofNodes(64, 64), [](Communicator &comm) { return comm.barrier(); });
  ::_exit(!status.ok() && status.error().number == 657 ? 0 : 1);
}

/// Room for some of the ranks' stacks only: those that run learn of it, and it is an error, not a crash.
TEST(Comm, RanksThatGetNoThread) { EXPECT_EXIT(runWithFewThreads(), testing::ExitedWithCode(0), ""); }
#endif

/// Collectives along axes give what a job of only its members would.
TEST(Comm, GroupsOfTheMesh) {
  const Mesh withModel({{"node", 2}, {"local", 2}, {"model", 3, false}});
  for (const Mesh &ranks : {Mesh::ofNodes(4, 2), Mesh::ofNodes(6, 2), Mesh::ofNodes(6, 3), Mesh::ofNodes(3, 1),
                            Mesh::ofNodes(3, 3), withModel}) {
    for (uint8_t bits = 1; bits < 1u << ranks.axes().size(); ++bits) {
      const AxisSet axes = AxisSet::fromBits(bits);
      expectOk(runJob(ranks, [&](Communicator &comm) -> Status {
        const Mesh &mesh = comm.mesh();
        int members = mesh.size(axes), me = mesh.indexOf(axes, comm.rank()), group = mesh.groupOf(axes, comm.rank());
        EXPECT_EQ(mesh.rankOf(axes, group, me), comm.rank());
        constexpr uint64_t kPart = 70;
        uint64_t n = kPart * static_cast<uint64_t>(members);
        std::vector<float> mine = filled<float>(comm.rank(), n), moved(n), gathered(n), reduced(n), shard(kPart);
        ZC_RETURN_IF_ERROR(comm.allToAll({mine.data(), moved.data(), kPart * 4, TrafficClass::none, axes}));
        ZC_RETURN_IF_ERROR(comm.allGather({mine.data(), gathered.data(), kPart * 4, TrafficClass::none, axes}));
        ReduceScatterOptions scatter;
        scatter.input = mine.data(), scatter.output = shard.data(), scatter.elements = kPart, scatter.axes = axes;
        ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
        AllReduceOptions reduce{mine.data(), reduced.data(), n};
        reduce.axes = axes;
        ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
        float word = mine[0];
        ZC_RETURN_IF_ERROR(comm.broadcast({&word, sizeof word, members - 1, axes}));
        EXPECT_EQ(word, element<float>(mesh.rankOf(axes, group, members - 1), 0));
        for (int p = 0; p < members; ++p)
          for (uint64_t i = 0; i < kPart; ++i) {
            int peer = mesh.rankOf(axes, group, p);
            uint64_t at = static_cast<uint64_t>(p) * kPart + i;
            EXPECT_EQ(moved[at], element<float>(peer, static_cast<uint64_t>(me) * kPart + i));
            EXPECT_EQ(gathered[at], element<float>(peer, i));
            float sum = element<float>(mesh.rankOf(axes, group, 0), at);
            for (int q = 1; q < members; ++q)
              sum += element<float>(mesh.rankOf(axes, group, q), at);
            EXPECT_EQ(reduced[at], sum);
            if (p == me) {
              EXPECT_EQ(shard[i], sum);
            }
          }
        return comm.barrier();
      }));
    }
  }
}

TEST(Comm, BytesPerLinkOfGroups) {
  expectOk(runJob(Mesh::ofNodes(6, 2), [&](Communicator &comm) -> Status { // 3 nodes
    std::vector<char> a(600), b(600);
    ZC_RETURN_IF_ERROR(comm.allToAll({a.data(), b.data(), 10, TrafficClass::reduceScatter, kNode}));
    EXPECT_EQ(comm.traffic().interNode, 20u);
    EXPECT_EQ(comm.traffic().intraNode, 0u);
    EXPECT_EQ(comm.traffic().reduceScatter, 30u);
    ZC_RETURN_IF_ERROR(comm.allGather({a.data(), b.data(), 7, TrafficClass::gather, kLocal}));
    EXPECT_EQ(comm.traffic().interNode, 20u);
    EXPECT_EQ(comm.traffic().intraNode, 7u);
    EXPECT_EQ(comm.traffic().gather, 14u);
    ZC_RETURN_IF_ERROR(comm.allGather({a.data(), b.data(), 5, TrafficClass::hop, kNode}));
    EXPECT_EQ(comm.traffic().interNode, 30u); // a hop's bytes are sent, its buffer is counted by the other hop
    EXPECT_EQ(comm.traffic().gather, 14u);
    return {};
  }));
}

TEST(Comm, BytesOfAModelAxisStayOnTheNode) {
  expectOk(runJob(Mesh({{"node", 2}, {"local", 2}, {"model", 2, false}}), [&](Communicator &comm) -> Status {
    std::vector<char> a(80), b(80);
    ZC_RETURN_IF_ERROR(comm.allGather({a.data(), b.data(), 10, TrafficClass::gather, AxisSet::of(2)}));
    EXPECT_EQ(comm.traffic().intraNode, 10u);
    EXPECT_EQ(comm.traffic().interNode, 0u);
    EXPECT_EQ(comm.traffic().model, 20u);
    EXPECT_EQ(comm.traffic().gather, 0u);
    ZC_RETURN_IF_ERROR(comm.allGather({a.data(), b.data(), 10, TrafficClass::gather, kNode | kLocal}));
    EXPECT_EQ(comm.traffic().intraNode, 20u); // one of the three others is on this node
    EXPECT_EQ(comm.traffic().interNode, 20u);
    EXPECT_EQ(comm.traffic().gather, 40u);
    EXPECT_EQ(comm.traffic().model, 20u);
    return {};
  }));
}

/// Groups along other axes do not disturb each other, whoever comes first.
TEST(Comm, GroupsAlongSeveralAxesAtATime) {
  const Mesh ranks({{"node", 2}, {"local", 2}, {"model", 2, false}});
  expectOk(runJob(ranks, [&](Communicator &comm) -> Status {
    for (int round = 0; round < 200; ++round)
      for (uint8_t bits = 1; bits < 8; ++bits) {
        AxisSet axes = AxisSet::fromBits(bits);
        int64_t rank = comm.rank(), sum = 0, expected = 0;
        AllReduceOptions reduce{&rank, &sum, 1, DType::i64};
        reduce.axes = axes;
        ZC_RETURN_IF_ERROR(comm.allReduce(reduce));
        for (int i = 0; i < ranks.size(axes); ++i)
          expected += ranks.rankOf(axes, ranks.groupOf(axes, comm.rank()), i);
        EXPECT_EQ(sum, expected);
      }
    return {};
  }));
}

TEST(Comm, AFailureOnOneNodeWakesAllNodes) {
  Status status = runJob(Mesh::ofNodes(4, 2), [&](Communicator &comm) -> Status {
    if (comm.rank() == 3)
      return makeError(Code::numeric, 123, "loss is NaN");
    std::vector<char> part(4), whole(8);
    Status last;
    while (last.ok())
      last = comm.allGather({part.data(), whole.data(), 4, TrafficClass::none, kLocal});
    return last;
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::numeric);
}

TEST(Comm, BuffersOverlapAsTheOwnPartOnly) {
  using Collective = std::function<Status(Communicator &, char *)>;
  const Collective wrong[] = {
      [](Communicator &comm, char *data) {
        return comm.allGather({data + (comm.rank() == 2 ? 0 : comm.rank() * 64), data, 64});
      },
      [](Communicator &comm, char *data) { return comm.allGather({data + comm.rank() * 64 + 1, data, 64}); },
      [](Communicator &comm, char *data) { return comm.allToAll({data, data, 64}); },
      [](Communicator &comm, char *data) { return comm.allReduce({data, data + 4, 16, DType::f32}); },
      [](Communicator &comm, char *data) { return comm.reduceScatter({data, data + 4, 16, DType::f32, DType::f32}); },
      [](Communicator &comm, char *data) { // its own part would be twice as long
        return comm.reduceScatter({data, data + comm.rank() * 64, 32, DType::bf16, DType::f32});
      },
  };
  for (const Collective &collective : wrong) {
    Status status = runJob(Mesh::ofNodes(3, 3), [&](Communicator &comm) -> Status {
      std::vector<char> data(256);
      return collective(comm, data.data());
    });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().number, 608) << render(status.error());
  }
}

TEST(Comm, BytesFollowTheFormulas) {
  expectOk(runJob(Mesh::ofNodes(4, 2), [&](Communicator &comm) -> Status {
    std::vector<float> whole(256), part(64);
    ZC_RETURN_IF_ERROR(comm.allGather({part.data(), whole.data(), 256, TrafficClass::gather}));
    ReduceScatterOptions scatter;
    scatter.input = whole.data();
    scatter.output = part.data();
    scatter.elements = 64;
    scatter.traffic = TrafficClass::allReduce;
    ZC_RETURN_IF_ERROR(comm.reduceScatter(scatter));
    AllReduceOptions quiet{whole.data(), whole.data(), 256, DType::f32};
    ZC_RETURN_IF_ERROR(comm.allReduce(quiet));
    EXPECT_EQ(comm.traffic().gather, 1024u);
    EXPECT_EQ(comm.traffic().allReduce, 1024u);
    EXPECT_EQ(comm.traffic().reduceScatter, 0u);
    EXPECT_EQ(comm.traffic().intraNode, 2 * 256u * 1); // one peer on the node, two elsewhere
    EXPECT_EQ(comm.traffic().interNode, 2 * 256u * 2);
    return {};
  }));
}

TEST(Comm, DifferentCollectivesAreAnErrorNotAHang) {
  Status status = runJob(Mesh::ofNodes(3, 3), [&](Communicator &comm) -> Status {
    std::vector<float> data(12);
    if (comm.rank() == 1) {
      AllReduceOptions reduce{data.data(), data.data(), 3, DType::f32};
      return comm.allReduce(reduce);
    }
    return comm.allGather({data.data() + comm.rank(), data.data(), 4});
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::peerLost);
  EXPECT_NE(status.error().message.find("rank 1 calls all_reduce of 12 bytes"), std::string::npos)
      << status.error().message;
}

TEST(Comm, DifferentSizesAreAnErrorToo) {
  Status status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status {
    std::vector<char> data(64);
    return comm.allGather({data.data() + comm.rank() * 16, data.data(), comm.rank() == 0 ? 8u : 16u});
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("of 16 bytes"), std::string::npos);
}

TEST(Comm, AFailureWakesTheOthersWithItsCause) {
  std::atomic<int> echoes{0};
  Status status = runJob(Mesh::ofNodes(4, 4), [&](Communicator &comm) -> Status {
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return makeError(Code::numeric, 123, "loss is NaN", "node \"x\"");
    }
    Status waiting = comm.barrier();
    EXPECT_FALSE(waiting.ok());
    EXPECT_EQ(waiting.error().code, Code::peerLost);
    EXPECT_NE(waiting.error().message.find("rank 2 failed: loss is NaN"), std::string::npos);
    EXPECT_FALSE(comm.barrier().ok()) << "and stays failed";
    ++echoes;
    return waiting;
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(echoes, 3);
  EXPECT_EQ(status.error().code, Code::numeric);
  EXPECT_EQ(status.error().where, "node \"x\"");
  EXPECT_EQ(status.error().note, "on rank 2");
}

TEST(Comm, ARankThatEndsEarlyIsMissed) {
  Status status = runJob(Mesh::ofNodes(2, 2), [&](Communicator &comm) -> Status {
    if (comm.rank() == 0)
      return {};
    return comm.barrier();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::peerLost);
}

TEST(Comm, BuffersOutliveReadersOfAnAbortedCollective) {
  // Rank 0 is aborted from outside while peers may be copying from it, then frees its buffer at once.
  for (int round = 0; round < 50; ++round) {
    Status status = runJob(Mesh::ofNodes(3, 3), [&](Communicator &comm) -> Status {
      std::vector<char> whole(3 << 16);
      std::thread killer;
      if (comm.rank() == 0)
        killer = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(50 * (round % 10)));
          comm.abort(makeError(Code::other, 1, "stop"));
        });
      Status last;
      while (last.ok()) {
        std::vector<char> part(1 << 16, static_cast<char>(comm.rank()));
        last = comm.allGather({part.data(), whole.data(), part.size()});
      }
      if (killer.joinable())
        killer.join();
      return last;
    });
    ASSERT_EQ(status.error().message, "stop");
  }
}
