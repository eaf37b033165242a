//===- Collectives.cpp - bytes per second of the collectives ---------------------------------------===//
//
// usage: bench_collectives RANKS          ranks as threads
//        mpirun -n RANKS bench_collectives   as processes
// Prints one JSON object per collective and size: the whole buffer, in GB, over the time. `copy` is a copy of the whole
// by one thread, with all of them at it: gathering and exchanging into another buffer move a rank's own part too.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/Inproc.h"
#include "runtime/comm/Staging.h"
#include "runtime/exec/Job.h"
#include "runtime/mpi/Mpi.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>

using namespace zc;

namespace {

constexpr int kRounds = 9;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Buffers {
  std::vector<float> in, out;
  std::vector<char> staging;
};

using Collective = std::function<Status(Communicator &, Buffers &, uint64_t part)>;
const std::pair<const char *, Collective> kCollectives[] = {
    {"copy",
     [](Communicator &comm, Buffers &b, uint64_t part) -> Status {
       std::memcpy(b.out.data(), b.in.data(), part * 4 * static_cast<uint64_t>(comm.worldSize()));
       return comm.barrier();
     }},
    {"all_gather", [](Communicator &comm, Buffers &b,
                      uint64_t part) { return comm.allGather({b.in.data(), b.out.data(), part * 4}); }},
    {"all_to_all", [](Communicator &comm, Buffers &b,
                      uint64_t part) { return comm.allToAll({b.in.data(), b.out.data(), part * 4}); }},
    {"reduce_scatter",
     [](Communicator &comm, Buffers &b, uint64_t part) {
       ReduceScatterOptions options;
       options.input = b.in.data();
       options.output = b.out.data();
       options.elements = part;
       options.workspace = b.staging.data();
       options.workspaceBytes = b.staging.size();
       return comm.reduceScatter(options);
     }},
};

Status measure(Communicator &comm, const char *how) {
  const auto world = static_cast<uint64_t>(comm.worldSize());
  for (uint64_t bytes : {uint64_t(1) << 20, uint64_t(16) << 20, uint64_t(64) << 20}) {
    uint64_t part = bytes / 4 / world;
    Buffers buffers{std::vector<float>(part * world, 1.0F), std::vector<float>(part * world),
                    std::vector<char>(reduceScatterStaging(world, part, sizeof(float)))};
    for (const auto &[name, run] : kCollectives) {
      std::vector<double> seconds;
      for (int round = 0; round < kRounds + 2; ++round) {
        ZC_RETURN_IF_ERROR(comm.barrier());
        double begin = now();
        ZC_RETURN_IF_ERROR(run(comm, buffers, part));
        seconds.push_back(now() - begin);
      }
      std::sort(seconds.begin(), seconds.end());
      if (comm.rank() == 0)
        std::printf(
            "{\"how\": \"%s\", \"ranks\": %d, \"collective\": \"%s\", \"bytes\": %llu, \"gb_per_second\": %.3f}\n", how,
            comm.worldSize(), name, static_cast<unsigned long long>(bytes),
            static_cast<double>(part * 4 * world) / seconds[seconds.size() / 2] / 1e9);
    }
  }
  return {};
}

void fail(const Error &error) {
  std::fprintf(stderr, "%s\n", render(error).c_str());
  ::_exit(1);
}

} // namespace

int main(int argc, char **argv) {
  Status status;
  if (argc > 1) {
    int ranks = std::atoi(argv[1]);
    if (ranks < 2 || ranks > 1024)
      fail(makeError(Code::usage, 999, "usage: bench_collectives RANKS, at least 2"));
    status = runJob(Mesh::ofNodes(ranks, ranks), [](Communicator &comm) { return measure(comm, "inproc"); });
  } else {
    auto ranks = connectMpi({nullptr, 30, fail});
    if (!ranks)
      fail(ranks.error());
    status = measure(*(*ranks)->communicator((*ranks)->firstRank()), "mpi");
  }
  if (!status.ok())
    fail(status.error());
  return 0;
}
