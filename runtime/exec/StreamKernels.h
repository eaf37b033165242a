//===- StreamKernels.h - what a device's streams run ------------------------------===//
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/exec/Executor.h"
#include "runtime/plan/Hazards.h"

#include <array>
#include <atomic>
#include <functional>

namespace zc {

/// Does a device's stream serve this queue? The others are the host's.
constexpr bool isStreamQueue(planpb::Queue queue) {
  return queue == planpb::COMPUTE || queue == planpb::COMM || queue == planpb::H2D || queue == planpb::D2H;
}

/// Makes the kernels of steps on a device's streams: the device's own, copies, collectives, and what comes and goes
/// (load_input, store_output), through pinned memory.
class StreamKernels {
public:
  /// Executions of a load_input whose copies may not be over when it is issued again, that one included.
  static constexpr size_t kInputsAhead = 2;

  /// Where errors of the host's calls and of collectives go, with the number of the kernel; on any thread.
  using Failed = std::function<void(uint32_t number, Error error)>;

  /// `slots`: contexts that may be in use at once.
  StreamKernels(Device &device, Communicator &communicator, uint32_t slots, Failed failed)
      : device(device), communicator(communicator), slots(slots), failed(std::move(failed)) {}

  /// `special`: what makeSpecialKernel made of the step, null for kernels of the registry. Lives as long as this does.
  Result<DeviceKernel *> make(const KernelSpec &spec, std::unique_ptr<Kernel> special, uint32_t number);

  /// Of the stream that collectives are enqueued on, all on one; made when the first is.
  Result<Lane *> laneOf(Stream &stream);
  /// Are collectives called while they are issued, by that thread? Else by the host's calls in their stream's order.
  bool meetWhenIssued() const { return communicator.takesLanes(); }

  /// Bytes that copies have been asked to move, host to device and back.
  uint64_t movedToDevice() const { return toDevice; }
  uint64_t movedToHost() const { return toHost; }

  Device &device;

private:
  Result<std::unique_ptr<DeviceKernel>> makeOne(const KernelSpec &spec, std::unique_ptr<Kernel> special,
                                                uint32_t number);

  Result<std::unique_ptr<DeviceKernel>> makeCollective(const KernelSpec &spec, std::unique_ptr<Kernel> onHost,
                                                       uint32_t number);
  /// At least so many bytes of pinned memory, for one collective after the other.
  Result<void *> staging(uint64_t bytes);

  Communicator &communicator;
  const uint32_t slots;
  Failed failed;
  std::atomic<uint64_t> toDevice{0}, toHost{0};
  std::pair<void *, uint64_t> staged{nullptr, 0};
  std::unique_ptr<Lane> lane;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
};

} // namespace zc
