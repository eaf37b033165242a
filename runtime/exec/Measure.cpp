#include "runtime/exec/Measure.h"

#include "base/Clock.h"
#include "kernels/Workspace.h"
#include "kernels/cpu/Copy.h"
#include "runtime/comm/Inproc.h"
#include "runtime/device/Arena.h"
#include "runtime/device/Nvme.h"
#include "runtime/device/Timeline.h"
#include "runtime/exec/Job.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

namespace zc {

namespace {

/// Median seconds of `rounds` runs; one more, untimed, comes first. Stops at the first error.
Result<double> secondsOf(int rounds, const std::function<Status()> &run) {
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    double begin = now();
    ZC_RETURN_IF_ERROR(run());
    if (round >= 0)
      seconds.push_back(now() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

/// A registry kernel on memory of its own. The rate: `work` per second.
Status timeKernel(KernelSpec spec, int rounds, double work, double &rate) {
  KernelRegistry registry;
  registerCpuKernels(registry);
  spec.workspace = workspaceBytes(spec, Target::cpu);
  auto kernel = registry.prepare(spec);
  if (!kernel)
    return kernel.error();
  std::vector<Arena> arenas;
  std::vector<void *> operands;
  std::vector<TensorType> memory = spec.operands;
  if (spec.workspace > 0)
    memory.push_back({DType::u8, {spec.workspace}});
  for (const TensorType &type : memory) {
    auto arena = Arena::map(static_cast<uint64_t>(type.numBytes()));
    if (!arena)
      return arena.error();
    std::memset(arena->data(), 0, arena->bytes());
    operands.push_back(arena->data());
    arenas.push_back(std::move(*arena));
  }
  auto seconds = secondsOf(rounds, [&] { return (*kernel)->run(operands.data(), {1, 1, 0}); });
  if (!seconds)
    return seconds.error();
  rate = work / *seconds;
  return {};
}

Status measureCopies(const MeasureOptions &options, MachineModel &figures) {
  constexpr uint64_t kBytes = uint64_t(256) << 20;
  auto host = Arena::map(kBytes), device = Arena::map(kBytes);
  for (auto *arena : {&host, &device})
    if (!*arena)
      return arena->error();
  std::memset(host->data(), 1, kBytes);
  for (bool isUp : {true, false}) {
    auto seconds = secondsOf(options.rounds, [&]() -> Status {
      cpu::copy(isUp ? device->data() : host->data(), isUp ? host->data() : device->data(), kBytes, options.threads);
      return {};
    });
    (isUp ? figures.h2dBandwidth : figures.d2hBandwidth) = double(kBytes) / *seconds;
  }
  return {};
}

Status measureNvme(const MeasureOptions &options, std::vector<std::string> &notes, MachineModel &figures) {
  auto memory = Arena::map(options.nvmeBytes);
  if (!memory)
    return memory.error();
  // What a disk may not leave out because it is all alike.
  for (uint64_t i = 0; i < options.nvmeBytes / 8; ++i)
    reinterpret_cast<uint64_t *>(memory->data())[i] = i * 0x9E3779B97F4A7C15u;
  auto file = NvmeArena::create({options.folder, true}, options.nvmeBytes, notes);
  if (!file)
    return file.error();
  auto channel = NvmeChannel::open(**file, {{memory->data(), memory->bytes()}}, notes);
  auto write = secondsOf(options.rounds, [&] { return channel->write(0, memory->data(), options.nvmeBytes); });
  if (!write)
    return write.error();
  auto read = secondsOf(options.rounds, [&] { return channel->read(0, memory->data(), options.nvmeBytes); });
  if (!read)
    return read.error();
  figures.nvmeWriteBandwidth = double(options.nvmeBytes) / *write;
  figures.nvmeReadBandwidth = double(options.nvmeBytes) / *read;
  return {};
}

Status measureCommunication(const MeasureOptions &options, MachineModel &figures) {
  constexpr uint64_t kPart = uint64_t(16) << 20;
  constexpr int kRanks = 2;
  std::unique_ptr<RankGroup> ranks = makeInprocGroup(Mesh::ofNodes(kRanks, kRanks));
  return runJob(*ranks, [&](Communicator &communicator) -> Status {
    std::vector<char> mine(kPart, 1), all(kPart * kRanks);
    AllGatherOptions gather;
    gather.input = mine.data();
    gather.output = all.data();
    gather.bytes = kPart;
    auto seconds = secondsOf(options.rounds, [&] { return communicator.allGather(gather); });
    if (!seconds)
      return seconds.error();
    if (communicator.rank() == 0)
      figures.commBandwidth = double(kPart * (kRanks - 1)) / *seconds;
    return {};
  });
}

/// Two queues that wait for each other in turn.
void measureOverhead(MachineModel &figures) {
  constexpr uint64_t kTurns = 20000;
  Timeline ping, pong;
  std::thread other([&] {
    for (uint64_t i = 1; i <= kTurns && ping.waitFor(i); ++i)
      pong.advance();
  });
  double begin = now();
  for (uint64_t i = 1; i <= kTurns; ++i) {
    ping.advance();
    pong.waitFor(i);
  }
  figures.stepOverhead = (now() - begin) / (2 * kTurns);
  other.join();
}

Status measureHere(const MeasureOptions &options, std::vector<std::string> &notes, MachineModel &figures) {
  if (!options.folder.empty())
    ZC_RETURN_IF_ERROR(measureNvme(options, notes, figures));
  ZC_RETURN_IF_ERROR(measureKernels(options.threads, options.rounds, figures));
  ZC_RETURN_IF_ERROR(measureCopies(options, figures));
  ZC_RETURN_IF_ERROR(measureCommunication(options, figures));
  measureOverhead(figures);
  return {};
}

/// Everybody gathers from everybody: the ranks of a machine share its link, and each sends its part to each rank of the
/// other machines. The ranks of this machine are `near`.
Status measureLink(const MeasureOptions &options, Communicator &communicator, int near, MachineModel &figures) {
  const int world = communicator.worldSize();
  constexpr uint64_t kSent = uint64_t(32) << 20; // by a machine, or about
  const uint64_t part = std::max<uint64_t>(kSent / uint64_t(near * (world - near)), 65536);
  std::vector<char> mine(part, 1), all(part * uint64_t(world));
  AllGatherOptions gather;
  gather.input = mine.data();
  gather.output = all.data();
  gather.bytes = part;
  auto seconds = secondsOf(options.rounds, [&] { return communicator.allGather(gather); });
  if (!seconds)
    return seconds.error();
  figures.nodeBandwidth = double(part) * near * (world - near) / *seconds;
  return {};
}

} // namespace

Status measureKernels(int threads, int rounds, MachineModel &figures) {
  constexpr int64_t kSide = 1536, kElements = 1 << 25;
  KernelSpec product, update;
  product.name = "matmul";
  product.numInputs = 2;
  product.threads = update.threads = threads;
  for (DType type : {DType::f32, DType::bf16}) {
    product.operands.assign(3, {type, {kSide, kSide}});
    ZC_RETURN_IF_ERROR(timeKernel(product, rounds, 2.0 * kSide * kSide * kSide,
                                  type == DType::f32 ? figures.flopsPerSecond : figures.halfFlopsPerSecond));
  }
  update.name = "accumulate_gradient";
  update.operands.assign(2, {DType::f32, {kElements}});
  update.numInputs = 1;
  return timeKernel(update, rounds, 12.0 * kElements, figures.memoryBandwidth);
}

Result<MachineModel> measureMachine(const MeasureOptions &options, std::vector<std::string> &notes) {
  MachineModel figures;
  for (const MachineModel::Field &field : MachineModel::kFields)
    figures.*field.rate = 0;
  if (!options.ranks) {
    ZC_RETURN_IF_ERROR(measureHere(options, notes, figures));
    return figures;
  }
  const std::vector<int> machines = options.ranks->machines();
  const int near = static_cast<int>(std::count(machines.begin(), machines.end(), machines.empty() ? 0 : machines[0]));
  ZC_RETURN_IF_ERROR(runJob(*options.ranks, [&](Communicator &communicator) -> Status {
    if (communicator.rank() == 0)
      ZC_RETURN_IF_ERROR(measureHere(options, notes, figures));
    ZC_RETURN_IF_ERROR(communicator.barrier()); // the link is measured when nobody does anything else
    return near < communicator.worldSize() ? measureLink(options, communicator, near, figures) : Status();
  }));
  return figures;
}

std::string toJson(const MachineModel &figures) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const MachineModel::Field &field : MachineModel::kFields)
    if (figures.*field.rate > 0)
      json[field.name] = figures.*field.rate;
  return json.dump();
}

} // namespace zc
