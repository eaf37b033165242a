#include "runtime/exec/StreamKernels.h"

#include "runtime/base/Failpoint.h"
#include "runtime/device/Caught.h"

namespace zc {

namespace {

class StreamCopy : public DeviceKernel {
public:
  StreamCopy(uint64_t bytes, std::atomic<uint64_t> &moved) : bytes(bytes), moved(moved) {}
  Status enqueue(void *const *operands, const EnqueuedContext &, Stream &stream) override {
    moved += bytes;
    return stream.copy(operands[1], operands[0], bytes);
  }
  bool isRepeatable() const override { return false; } // it counts, and memory of the host may be unpinned

private:
  uint64_t bytes;
  std::atomic<uint64_t> &moved;
};

/// A kernel of the host that fills or takes a piece of pinned memory, and the copy behind or before it. The next one
/// comes after this one's copy, since both are on one stream: one piece is enough.
class HostCall : public DeviceKernel {
public:
  HostCall(std::unique_ptr<Kernel> kernel, void *pinned, uint64_t bytes, bool fills, uint32_t slots,
           std::function<void(Error)> failed)
      : kernel(std::move(kernel)), pinned(pinned), bytes(bytes), fills(fills), failed(std::move(failed)), calls(slots) {
  }

  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    Call &call = calls[context.slot];
    call = {this, context.host};
    if (!fills)
      ZC_RETURN_IF_ERROR(stream.copy(pinned, operands[0], bytes));
    ZC_RETURN_IF_ERROR(stream.call(
        [](void *argument) {
          auto *call = static_cast<Call *>(argument);
          call->of->run(*call->context);
        },
        &call));
    return fills ? stream.copy(operands[0], pinned, bytes) : Status();
  }
  bool isRepeatable() const override { return false; }

private:
  struct Call {
    HostCall *of = nullptr;
    const StepContext *context = nullptr;
  };

  void run(const StepContext &context) {
    void *operands[] = {pinned};
    if (Status status = caught([&] { return kernel->run(operands, context); }); !status.ok())
      failed(status.error());
  }

  std::unique_ptr<Kernel> kernel;
  void *pinned;
  uint64_t bytes;
  bool fills;
  std::function<void(Error)> failed;
  std::vector<Call> calls;
};

/// A collective of ranks that are in this process: its members meet while it is issued, and read each other's memory.
class LaneCollective : public DeviceKernel {
public:
  LaneCollective(std::unique_ptr<Kernel> kernel, Communicator &communicator, StreamKernels &kernels)
      : kernel(std::move(kernel)), communicator(communicator), kernels(kernels) {}
  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    Result<Lane *> lane = kernels.laneOf(stream);
    ZC_RETURN_IF_ERROR(lane.status());
    communicator.enqueueOn(*lane);
    Status status = caught([&] { return kernel->run(operands, *context.host); });
    communicator.enqueueOn(nullptr);
    return status;
  }
  bool isRepeatable() const override { return false; } // its members meet on the host

private:
  std::unique_ptr<Kernel> kernel;
  Communicator &communicator;
  StreamKernels &kernels;
};

/// A collective of ranks that are processes: through pinned memory, by a call of the host. All are on one stream and
/// may share that memory.
class StagedCollective : public DeviceKernel {
public:
  StagedCollective(const KernelSpec &spec, std::unique_ptr<Kernel> kernel, int rank, void *pinned, uint32_t slots,
                   std::function<void(Error)> failed)
      : kernel(std::move(kernel)), rank(rank), failed(std::move(failed)), calls(slots) {
    auto *at = static_cast<char *>(pinned);
    auto stage = [&](uint64_t size, bool isIn, bool isOut) {
      parts.push_back({size, isIn, isOut});
      staged.push_back(at);
      at += roundedUp(size);
    };
    for (size_t i = 0; i < spec.operands.size(); ++i)
      stage(static_cast<uint64_t>(spec.operands[i].numBytes()), true, i >= spec.numInputs);
    if (spec.workspace > 0)
      stage(static_cast<uint64_t>(spec.workspace), false, false);
  }
  static uint64_t bytes(const KernelSpec &spec) {
    uint64_t sum = roundedUp(static_cast<uint64_t>(spec.workspace));
    for (const TensorType &type : spec.operands)
      sum += roundedUp(static_cast<uint64_t>(type.numBytes()));
    return sum;
  }
  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].isIn)
        ZC_RETURN_IF_ERROR(stream.copy(staged[i], operands[i], parts[i].bytes));
    Call &call = calls[context.slot];
    call = {this, context.host};
    ZC_RETURN_IF_ERROR(stream.call(
        [](void *argument) {
          auto *call = static_cast<Call *>(argument);
          call->of->run(*call->context);
        },
        &call));
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].isOut)
        ZC_RETURN_IF_ERROR(stream.copy(operands[i], staged[i], parts[i].bytes));
    return {};
  }
  bool isRepeatable() const override { return false; }

private:
  struct Part {
    uint64_t bytes;
    bool isIn, isOut;
  };
  struct Call {
    StagedCollective *of = nullptr;
    const StepContext *context = nullptr;
  };
  static uint64_t roundedUp(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

  void run(const StepContext &context) {
    setFaultContext(rank, context.step);
    if (Status status = caught([&] { return kernel->run(staged.data(), context); }); !status.ok())
      failed(status.error());
  }

  std::unique_ptr<Kernel> kernel;
  int rank;
  std::function<void(Error)> failed;
  std::vector<Part> parts;
  std::vector<void *> staged;
  std::vector<Call> calls;
};

} // namespace

Result<Lane *> StreamKernels::laneOf(Stream &stream) {
  if (!lane) {
    Result<std::unique_ptr<Lane>> made = device.makeLane(stream);
    ZC_RETURN_IF_ERROR(made.status());
    lane = std::move(*made);
  }
  return lane.get();
}

Result<void *> StreamKernels::staging(uint64_t bytes) {
  if (bytes > staged.second) {
    Result<void *> pinned = device.allocatePinned(bytes);
    ZC_RETURN_IF_ERROR(pinned.status());
    staged = {*pinned, bytes};
  }
  return staged.first;
}

Result<std::unique_ptr<DeviceKernel>> StreamKernels::makeCollective(const KernelSpec &spec,
                                                                    std::unique_ptr<Kernel> onHost, uint32_t number) {
  if (communicator.takesLanes())
    return std::unique_ptr<DeviceKernel>(std::make_unique<LaneCollective>(std::move(onHost), communicator, *this));
  Result<void *> pinned = staging(StagedCollective::bytes(spec));
  ZC_RETURN_IF_ERROR(pinned.status());
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<StagedCollective>(spec, std::move(onHost), communicator.rank(), *pinned, slots,
                                         [this, number](Error error) { failed(number, std::move(error)); }));
}

Result<DeviceKernel *> StreamKernels::make(const KernelSpec &spec, std::unique_ptr<Kernel> special, uint32_t number) {
  Result<std::unique_ptr<DeviceKernel>> kernel = makeOne(spec, std::move(special), number);
  if (!kernel)
    return kernel.error();
  kernels.push_back(std::move(*kernel));
  return kernels.back().get();
}

Result<std::unique_ptr<DeviceKernel>> StreamKernels::makeOne(const KernelSpec &spec, std::unique_ptr<Kernel> special,
                                                             uint32_t number) {
  auto bytes = static_cast<uint64_t>(spec.operands[0].numBytes());
  if (spec.name == "h2d" || spec.name == "d2h")
    return std::unique_ptr<DeviceKernel>(std::make_unique<StreamCopy>(bytes, spec.name == "h2d" ? toDevice : toHost));
  if (!special)
    return device.prepare(spec, number);
  if (spec.name != "load_input" && spec.name != "store_output")
    return makeCollective(spec, std::move(special), number);
  auto tell = [this, number](Error error) { failed(number, std::move(error)); };
  Result<void *> pinned = device.allocatePinned(bytes);
  if (!pinned)
    return pinned.error();
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<HostCall>(std::move(special), *pinned, bytes, spec.name == "load_input", slots, tell));
}

} // namespace zc
