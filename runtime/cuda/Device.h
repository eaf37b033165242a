//===- Device.h - one rank's GPU -----------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"
#include "runtime/cuda/Choices.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/cuda/Streams.h"

#include <map>

namespace zc::cuda {

class GpuDevice : public Device {
public:
  static Result<std::unique_ptr<Device>> open(const CudaOptions &options);
  ~GpuDevice() override;

  std::string name() const override { return title; }
  Target target() const override { return Target::cuda; }
  Result<void *> allocate(uint64_t bytes) override;
  Status checkRoom() const override;
  /// Memory that cannot be pinned is used as it is, which the notes say.
  Status pin(void *memory, uint64_t bytes) override;
  Result<void *> allocatePinned(uint64_t bytes) override;
  Status read(void *to, const void *from, uint64_t bytes) override;
  Status write(void *to, const void *from, uint64_t bytes) override;
  Status clear(void *bytes, uint64_t count) override;
  Result<std::unique_ptr<Stream>> makeStream() override { return GpuStream::make(gpu); }
  bool hasGraphs() const override { return !gpu.isSync; }
  Result<std::unique_ptr<Event>> makeEvent() override;
  Result<std::unique_ptr<Stamp>> makeStamp() override;
  Result<int64_t> nanosecondsBetween(const Stamp &from, const Stamp &to) const override;
  void foresee(const std::vector<KernelSpec> &specs, int threads) override;
  Result<std::unique_ptr<DeviceKernel>> prepare(const KernelSpec &spec, uint32_t number) override;
  Result<std::unique_ptr<Lane>> makeLane(Stream &stream) override;
  Result<std::unique_ptr<DeviceLinks>> makeLinks() override;
  std::optional<Fault> fault() const override;
  Result<std::string> description() const override;
  std::vector<LibraryChoice> choices() const override { return Choices::instance().all(); }
  std::vector<std::string> notes() const override { return told; }

private:
  GpuDevice(const CudaOptions &options, int count);
  Status start();
  /// Makes the GPU's context. Errors: as CUDA says, with both numbers where there is no room for it.
  Status takeGpu();
  /// `room`: what the GPU has instead.
  Error tooLittleMemory(uint64_t needed, const std::string &room) const;
  /// With another rank, as far as it is known: a launcher may show each process a GPU of its own, and nothing else.
  bool sharesGpu() const { return options.shareProcess && options.localRanks > count; }

  const CudaOptions options;
  const int count; ///< of the machine's GPUs
  GpuState gpu;
  std::string title;
  std::vector<std::string> told;
  bool isUnpinned = false;
  std::vector<void *> allocated, pinned, registered;
  std::vector<void *> hosts;            ///< in HostMemory: registered, and what could not be
  FirstError *error = nullptr;          ///< pinned
  std::map<uint32_t, KernelSpec> specs; ///< of kernels, by number
};

} // namespace zc::cuda
