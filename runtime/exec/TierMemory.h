//===- TierMemory.h - a rank's memory on all tiers ----------------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "runtime/device/Arena.h"
#include "runtime/device/Link.h"
#include "runtime/device/Nvme.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/StreamKernels.h"

#include <array>
#include <mutex>

namespace zc {

/// A copy that goes on by itself once it has begun. Those of a queue are finished in the order in which they began.
class QueuedCopy : public Kernel {
public:
  /// Beside those of its queue that have begun and are not finished?
  virtual bool mayBegin(void *const *operands) const = 0;
  virtual void begin(void *const *operands) = 0;
  /// Is the oldest of its queue through?
  virtual bool isOldestDone() const = 0;
  /// Waits for a part of those under way. Errors come back from `finish`.
  virtual void progress() = 0;
  /// Waits for this one, the oldest. After an error nothing of its queue is under way.
  virtual Status finish() = 0;
  Status run(void *const *operands, const StepContext &) override {
    begin(operands);
    return finish();
  }
};

/// The arenas of a plan, and the steps that move bytes between them. Device and host are mapped memory, NVMe is a file.
class TierMemory {
public:
  explicit TierMemory(const planpb::Plan &plan) : plan(plan) {}

  /// Errors: memory that cannot be had (budget), the nvme tier's file (usage, io).
  /// With `streams` device memory is their device's, and the host's is pinned for it.
  Status map(const ExecutorOptions &options, StreamKernels *streams = nullptr);

  /// What a kernel gets for byte `offset` of a slice: an address, or, on NVMe, the byte of the file.
  void *operand(uint32_t slice, uint64_t offset) const;

  /// Memory beside the arenas, where kernels of the device reach it; after map().
  Result<void *> mapBeside(uint64_t bytes);

  /// Any bytes of a slice, on any tier, from any thread; while no step runs.
  Status read(uint32_t slice, uint64_t offset, void *to, uint64_t bytes) const;
  Status write(uint32_t slice, uint64_t offset, const void *from, uint64_t bytes);
  Status clear(uint32_t slice, uint64_t offset, uint64_t bytes);

  /// The kernel of h2d, d2h, nvme_read or nvme_write; null for other names. At most one of each runs at a time.
  std::unique_ptr<Kernel> makeCopy(const KernelSpec &spec);
  /// `collective`, slowed down as the rates say.
  std::unique_ptr<Kernel> slowDown(std::unique_ptr<Kernel> collective, const Communicator &communicator);

  std::vector<ArenaUse> uses() const;
  /// Adds the bytes moved so far.
  void addTraffic(Traffic &traffic) const;

  /// For tests: reads of the file that began while another was under way; while no step runs.
  uint64_t readsBegunBeside() const { return reader ? reader->numBegunBeside() : 0; }

  std::vector<std::string> notes; ///< what the user should know

private:
  struct Tier {
    Arena memory;
    void *onDevice = nullptr;
    std::unique_ptr<NvmeArena> file;
  };
  /// Null for the file.
  char *baseOf(const Tier &tier) const {
    return tier.onDevice ? static_cast<char *>(tier.onDevice) : tier.memory.data();
  }
  Status mapNvme(const planpb::Arena &arena, const ExecutorOptions &options, Tier &tier);

  const planpb::Plan &plan;
  StreamKernels *streams = nullptr;
  std::vector<Tier> tiers; ///< by arena
  std::vector<Arena> beside;
  std::array<Throttle, kNumLinks> links;              ///< each used by its queue's thread
  std::unique_ptr<NvmeChannel> reader, writer, other; ///< of the two queues, and of everybody else
  mutable std::mutex otherLock;                       ///< of `other`, and of the device's own reads and writes
  std::array<uint64_t, kNumLinks> moved{};            ///< bytes; each written by its queue's thread
};

} // namespace zc
