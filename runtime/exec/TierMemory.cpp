#include "runtime/exec/TierMemory.h"

#include "kernels/cpu/Copy.h"
#include "runtime/plan/Tiers.h"

#include <algorithm>
#include <cstring>

namespace zc {

namespace {

class MemoryCopy : public Kernel {
public:
  MemoryCopy(uint64_t bytes, int threads, Throttle &throttle, uint64_t &moved)
      : bytes(bytes), threads(threads), throttle(throttle), moved(moved) {}
  Status run(void *const *operands, const StepContext &) override {
    throttle.begin();
    cpu::copy(operands[1], operands[0], bytes, threads);
    throttle.finish(bytes);
    moved += bytes;
    return {};
  }

private:
  uint64_t bytes;
  int threads;
  Throttle &throttle;
  uint64_t &moved;
};

/// Operands on NVMe are bytes of the file (TierMemory::operand).
class NvmeCopy : public QueuedCopy {
public:
  NvmeCopy(NvmeChannel &channel, bool isWrite, uint64_t bytes, Throttle &throttle, uint64_t &moved)
      : channel(channel), isWrite(isWrite), bytes(bytes), throttle(throttle), moved(moved) {}
  bool mayBegin(void *const *operands) const override {
    // A link that is slowed down takes them one by one.
    return throttle.isSlow() ? channel.isIdle()
                             : channel.accepts(isWrite, inFile(operands), inMemory(operands), toBlocks(bytes));
  }
  void begin(void *const *operands) override {
    throttle.begin();
    channel.begin(isWrite, inFile(operands), inMemory(operands), toBlocks(bytes));
  }
  bool isOldestDone() const override { return channel.isOldestDone(); }
  void progress() override { (void)channel.progress(); }
  Status finish() override {
    ZC_RETURN_IF_ERROR(channel.finish());
    throttle.finish(bytes);
    moved += bytes;
    return {};
  }

private:
  uint64_t inFile(void *const *operands) const { return reinterpret_cast<uintptr_t>(operands[isWrite]); }
  void *inMemory(void *const *operands) const { return operands[!isWrite]; }

  NvmeChannel &channel;
  bool isWrite;
  uint64_t bytes;
  Throttle &throttle;
  uint64_t &moved;
};

class SlowCollective : public Kernel {
public:
  SlowCollective(std::unique_ptr<Kernel> inner, const Communicator &communicator, Throttle &throttle)
      : inner(std::move(inner)), communicator(communicator), throttle(throttle) {}
  Status run(void *const *operands, const StepContext &context) override {
    uint64_t before = sent();
    throttle.begin();
    ZC_RETURN_IF_ERROR(inner->run(operands, context));
    throttle.finish(sent() - before);
    return {};
  }

private:
  uint64_t sent() const { return communicator.traffic().interNode + communicator.traffic().intraNode; }
  std::unique_ptr<Kernel> inner;
  const Communicator &communicator;
  Throttle &throttle;
};

} // namespace

Status TierMemory::map(const ExecutorOptions &options, StreamKernels *ofDevice) {
  streams = ofDevice;
  for (size_t link = 0; link < kNumLinks; ++link)
    links[link] = Throttle(options.links[link]);
  for (const planpb::Arena &arena : plan.arenas()) {
    Tier tier;
    if (streams && arena.tier() == planpb::DEVICE) {
      Result<void *> allocated = streams->device.allocate(arena.bytes());
      ZC_RETURN_IF_ERROR(allocated.status());
      tier.onDevice = *allocated;
    } else if (arena.tier() != planpb::NVME) {
      Result<Arena> mapped = Arena::map(arena.bytes());
      if (!mapped)
        return mapped.error();
      if (options.reserve)
        ZC_RETURN_IF_ERROR(mapped->reserve());
      tier.memory = std::move(*mapped);
      if (streams)
        ZC_RETURN_IF_ERROR(streams->device.pin(tier.memory.data(), tier.memory.bytes()));
    }
    tiers.push_back(std::move(tier));
  }
  // Last, because the memory it reads into and writes from is there now.
  for (int i = 0; i < plan.arenas_size(); ++i)
    if (plan.arenas(i).tier() == planpb::NVME && plan.arenas(i).bytes() > 0)
      ZC_RETURN_IF_ERROR(mapNvme(plan.arenas(i), options, tiers[static_cast<size_t>(i)]));
  return {};
}

Result<void *> TierMemory::mapBeside(uint64_t bytes) {
  if (streams)
    return streams->device.allocate(bytes);
  Result<Arena> mapped = Arena::map(bytes);
  if (!mapped)
    return mapped.error();
  beside.push_back(std::move(*mapped));
  return static_cast<void *>(beside.back().data());
}

Status TierMemory::mapNvme(const planpb::Arena &arena, const ExecutorOptions &options, Tier &tier) {
  auto file = NvmeArena::create(options.nvme, arena.bytes(), notes);
  if (!file)
    return file.error();
  tier.file = std::move(*file);
  std::vector<IoRegion> regions;
  for (int i = 0; i < plan.arenas_size(); ++i)
    if (plan.arenas(i).tier() == planpb::HOST && tiers[static_cast<size_t>(i)].memory.bytes() > 0)
      regions.push_back({tiers[static_cast<size_t>(i)].memory.data(), tiers[static_cast<size_t>(i)].memory.bytes()});
  reader = NvmeChannel::open(*tier.file, regions, notes);
  writer = NvmeChannel::open(*tier.file, regions, notes);
  other = NvmeChannel::open(*tier.file, {}, notes);
  return {};
}

void *TierMemory::operand(uint32_t index, uint64_t offset) const {
  const planpb::Slice &slice = plan.slices(static_cast<int>(index));
  auto base = reinterpret_cast<uintptr_t>(baseOf(tiers[slice.arena()])); // 0 for a file
  return reinterpret_cast<void *>(base + slice.offset() + offset);
}

Status TierMemory::read(uint32_t slice, uint64_t offset, void *to, uint64_t bytes) const {
  if (bytes == 0)
    return {};
  if (tierOf(plan, slice) == planpb::NVME) {
    std::lock_guard<std::mutex> lock(otherLock);
    return other->readBytes(reinterpret_cast<uintptr_t>(operand(slice, offset)), to, bytes);
  }
  if (streams && tierOf(plan, slice) == planpb::DEVICE) {
    std::lock_guard<std::mutex> lock(otherLock);
    return streams->device.read(to, operand(slice, offset), bytes);
  }
  std::memcpy(to, operand(slice, offset), bytes);
  return {};
}

Status TierMemory::write(uint32_t slice, uint64_t offset, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return {};
  if (tierOf(plan, slice) == planpb::NVME) {
    std::lock_guard<std::mutex> lock(otherLock);
    return other->writeBytes(reinterpret_cast<uintptr_t>(operand(slice, offset)), from, bytes);
  }
  if (streams && tierOf(plan, slice) == planpb::DEVICE) {
    std::lock_guard<std::mutex> lock(otherLock);
    return streams->device.write(operand(slice, offset), from, bytes);
  }
  std::memcpy(operand(slice, offset), from, bytes);
  return {};
}

Status TierMemory::clear(uint32_t slice, uint64_t offset, uint64_t bytes) {
  if (bytes == 0)
    return {};
  if (tierOf(plan, slice) == planpb::NVME) {
    static const std::vector<char> zeros(1 << 20);
    for (uint64_t done = 0; done < bytes; done += zeros.size())
      ZC_RETURN_IF_ERROR(write(slice, offset + done, zeros.data(), std::min<uint64_t>(zeros.size(), bytes - done)));
    return {};
  }
  if (streams && tierOf(plan, slice) == planpb::DEVICE) {
    std::lock_guard<std::mutex> lock(otherLock);
    return streams->device.clear(operand(slice, offset), bytes);
  }
  std::memset(operand(slice, offset), 0, bytes);
  return {};
}

std::unique_ptr<Kernel> TierMemory::makeCopy(const KernelSpec &spec) {
  const TierCopy *copy = findTierCopy(spec.name);
  if (!copy)
    return nullptr;
  auto bytes = static_cast<uint64_t>(spec.operands[0].numBytes());
  size_t link = static_cast<size_t>(copy->queue) - static_cast<size_t>(planpb::H2D); // in the order of Link
  if (!movesBlocks(copy->queue))
    return std::make_unique<MemoryCopy>(bytes, spec.threads, links[link], moved[link]);
  bool isWrite = copy->queue == planpb::NVME_WRITE;
  return std::make_unique<NvmeCopy>(isWrite ? *writer : *reader, isWrite, bytes, links[link], moved[link]);
}

std::unique_ptr<Kernel> TierMemory::slowDown(std::unique_ptr<Kernel> collective, const Communicator &communicator) {
  Throttle &link = links[static_cast<size_t>(Link::comm)];
  if (!link.isSlow())
    return collective;
  return std::make_unique<SlowCollective>(std::move(collective), communicator, link);
}

std::vector<ArenaUse> TierMemory::uses() const {
  std::vector<ArenaUse> uses;
  for (int i = 0; i < plan.arenas_size(); ++i) {
    const Tier &tier = tiers[static_cast<size_t>(i)];
    uses.push_back({plan.arenas(i).tier(), plan.arenas(i).bytes(), tier.memory.bytes(), tier.memory.residentBytes()});
    if (tier.onDevice)
      uses.back().mapped = uses.back().resident = plan.arenas(i).bytes();
    if (tier.file) {
      uses.back().mapped = tier.file->bytes();
      uses.back().resident = tier.file->allocatedBytes();
    }
  }
  return uses;
}

void TierMemory::addTraffic(Traffic &traffic) const {
  traffic.h2d += moved[static_cast<size_t>(Link::h2d)];
  traffic.d2h += moved[static_cast<size_t>(Link::d2h)];
  if (streams) {
    traffic.h2d += streams->movedToDevice();
    traffic.d2h += streams->movedToHost();
  }
  traffic.nvmeRead += moved[static_cast<size_t>(Link::nvmeRead)];
  traffic.nvmeWrite += moved[static_cast<size_t>(Link::nvmeWrite)];
}

} // namespace zc
