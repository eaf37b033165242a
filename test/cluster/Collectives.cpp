//===- Collectives.cpp - every collective over MPI against the same over threads ------------------===//
//
// Run by collectives.py under mpirun: each process does the collectives as its rank over MPI, and once more as all
// ranks over threads, and compares what its rank got. Prints nothing but differences; exit code 0 when there are none.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/Inproc.h"
#include "runtime/comm/Staging.h"
#include "runtime/exec/Job.h"
#include "runtime/mpi/Mpi.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>

using namespace zc;

namespace {

struct Case {
  Collective kind;
  AxisSet axes;
  DType type, outputType;
  uint64_t elements; ///< of a part
  bool inPlace;
};

/// Bytes that are numbers of ordinary size in every type, and differ by rank.
std::vector<char> values(DType type, uint64_t elements, int rank) {
  std::vector<char> bytes(elements * static_cast<uint64_t>(sizeOf(type)));
  for (uint64_t i = 0; i < elements; ++i) {
    double x = static_cast<double>((i * 7919 + static_cast<uint64_t>(rank) * 104729) % 1000003) / 37 - 13000;
    auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value); };
    type == DType::f32    ? put(static_cast<float>(x))
    : type == DType::f64  ? put(x)
    : type == DType::bf16 ? put(toBf16(static_cast<float>(x)))
    : type == DType::f16  ? put(toF16(static_cast<float>(x)))
    : type == DType::i64  ? put(static_cast<int64_t>(x * 1000))
                          : put(static_cast<uint8_t>(x));
  }
  return bytes;
}

/// What the rank has after the collective.
Result<std::vector<char>> perform(Communicator &comm, const Case &c) {
  const Mesh &mesh = comm.mesh();
  const uint64_t members = static_cast<uint64_t>(mesh.size(c.axes));
  const uint64_t me = static_cast<uint64_t>(mesh.indexOf(c.axes, comm.rank()));
  const uint64_t size = static_cast<uint64_t>(sizeOf(c.type)), part = c.elements * size, whole = part * members;
  std::vector<char> in = values(c.type, c.elements * members, comm.rank());
  std::vector<char> out(c.elements * members * static_cast<uint64_t>(sizeOf(c.outputType)), 1);
  Status status;
  switch (c.kind) {
  case Collective::allGather:
    if (c.inPlace)
      std::memcpy(out.data() + me * part, in.data(), part);
    status =
        comm.allGather({c.inPlace ? out.data() + me * part : in.data(), out.data(), part, TrafficClass::none, c.axes});
    break;
  case Collective::allToAll:
    status = comm.allToAll({in.data(), out.data(), part, TrafficClass::none, c.axes});
    break;
  case Collective::reduceScatter: {
    ReduceScatterOptions options;
    options.input = in.data();
    options.output = c.inPlace ? in.data() + me * part : out.data();
    options.elements = c.elements;
    options.inputType = c.type;
    options.outputType = c.outputType;
    options.scale = c.type == DType::i64 ? 1 : 0.3;
    options.accumulate = !c.inPlace;
    options.axes = c.axes;
    std::vector<char> staging(reduceScatterStaging(members, c.elements, static_cast<uint64_t>(sizeOf(c.type))));
    options.workspace = staging.data();
    options.workspaceBytes = staging.size();
    status = comm.reduceScatter(options);
    if (c.inPlace)
      return status.ok() ? Result<std::vector<char>>({in.begin() + static_cast<ptrdiff_t>(me * part),
                                                      in.begin() + static_cast<ptrdiff_t>((me + 1) * part)})
                         : status.error();
    break;
  }
  case Collective::allReduce: {
    AllReduceOptions options;
    options.input = in.data();
    options.output = c.inPlace ? in.data() : out.data();
    options.elements = c.elements * members - (c.elements > 1 ? 1 : 0); // parts that are not all alike
    options.type = c.type;
    options.scale = c.type == DType::i64 ? 1 : 0.3;
    options.axes = c.axes;
    std::vector<char> staging(allReduceStaging(members, options.elements, static_cast<uint64_t>(sizeOf(c.type))));
    options.workspace = staging.data();
    options.workspaceBytes = staging.size();
    status = comm.allReduce(options);
    if (c.inPlace)
      out = in;
    break;
  }
  case Collective::broadcast:
    out = in;
    status = comm.broadcast({out.data(), whole, static_cast<int>(members) - 1, c.axes});
    break;
  case Collective::barrier:
    status = comm.barrier();
    break;
  }
  return status.ok() ? Result<std::vector<char>>(std::move(out)) : status.error();
}

std::vector<Case> allCases(const Mesh &mesh, uint64_t largest) {
  std::vector<Case> cases;
  for (uint8_t bits = 1; bits < 1u << mesh.axes().size(); ++bits)
    for (uint64_t elements : {uint64_t(1), uint64_t(7), uint64_t(1000), largest}) {
      const AxisSet axes = AxisSet::fromBits(bits);
      for (bool inPlace : {false, true}) {
        for (DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64})
          for (Collective kind : {Collective::reduceScatter, Collective::allReduce})
            cases.push_back({kind, axes, type, type, elements, inPlace});
        cases.push_back({Collective::allGather, axes, DType::u8, DType::u8, elements, inPlace});
      }
      cases.push_back({Collective::reduceScatter, axes, DType::bf16, DType::f32, elements, false});
      cases.push_back({Collective::allToAll, axes, DType::u8, DType::u8, elements, false});
      cases.push_back({Collective::broadcast, axes, DType::u8, DType::u8, elements, false});
    }
  return cases;
}

void fail(const Error &error) {
  std::fprintf(stderr, "%s\n", render(error).c_str());
  ::_exit(1);
}

} // namespace

int main(int argc, char **argv) {
  const int perNode = argc > 1 ? std::atoi(argv[1]) : 1, model = argc > 2 ? std::atoi(argv[2]) : 1;
  const uint64_t largest = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 300000;
  auto mesh = [&](int worldSize) {
    return model == 1 ? Mesh::ofNodes(worldSize, perNode)
                      : Mesh({{"node", worldSize / perNode}, {"local", perNode / model}, {"model", model, false}});
  };
  auto ranks = connectMpi({mesh, 30, fail});
  if (!ranks)
    fail(ranks.error());
  const int self = (*ranks)->firstRank();
  int different = 0;
  std::unique_ptr<Communicator> comm = (*ranks)->communicator(self);
  const std::vector<Case> cases = allCases((*ranks)->mesh(), largest);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    auto got = perform(*comm, c);
    if (!got)
      fail(got.error());
    std::vector<char> expected;
    Status status = runJob((*ranks)->mesh(), [&](Communicator &thread) -> Status {
      auto result = perform(thread, c);
      if (result && thread.rank() == self)
        expected = std::move(*result);
      return result.status();
    });
    if (!status.ok())
      fail(status.error());
    if (*got == expected && !expected.empty())
      continue;
    std::fprintf(stderr, "rank %d: %s along %s of %llu elements of %s%s differs\n", self, nameOf(c.kind).data(),
                 (*ranks)->mesh().nameOf(c.axes).c_str(), static_cast<unsigned long long>(c.elements),
                 nameOf(c.type).data(), c.inPlace ? ", in place," : "");
    ++different;
  }
  comm.reset();
  if (self == 0)
    std::printf("%zu collectives\n", cases.size());
  return different == 0 ? 0 : 1;
}
