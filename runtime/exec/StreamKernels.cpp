#include "runtime/exec/StreamKernels.h"

#include "base/Failpoint.h"
#include "runtime/device/Caught.h"
#include "runtime/plan/StepNames.h"

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

/// What comes from the host: this thread fills a piece of pinned memory while the device is at what was issued before,
/// and the copy waits for its turn. Pieces take turns.
class InputCopy : public DeviceKernel {
public:
  using Pieces = std::array<void *, StreamKernels::kInputsAhead>;

  InputCopy(std::unique_ptr<Kernel> fill, const Pieces &pieces, uint64_t bytes)
      : fill(std::move(fill)), pieces(pieces), bytes(bytes) {}

  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    void *piece = pieces[count++ % pieces.size()];
    ZC_RETURN_IF_ERROR(caught([&] { return fill->run(&piece, *context.host); }));
    return stream.copy(operands[0], piece, bytes);
  }
  bool isRepeatable() const override { return false; }

private:
  std::unique_ptr<Kernel> fill;
  const Pieces pieces;
  const uint64_t bytes;
  uint64_t count = 0;
};

/// What goes to the host: a copy to pinned memory, and a call of the host that takes it. The next one comes after both,
/// since they are on one stream: one piece is enough.
class OutputCall : public DeviceKernel {
public:
  OutputCall(std::unique_ptr<Kernel> kernel, void *pinned, uint64_t bytes, uint32_t slots,
             std::function<void(Error)> failed)
      : kernel(std::move(kernel)), pinned(pinned), bytes(bytes), failed(std::move(failed)), calls(slots) {}

  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    Call &call = calls[context.slot];
    call = {this, context.host};
    ZC_RETURN_IF_ERROR(stream.copy(pinned, operands[0], bytes));
    return stream.call(
        [](void *argument) {
          auto *call = static_cast<Call *>(argument);
          call->of->run(*call->context);
        },
        &call);
  }
  bool isRepeatable() const override { return false; }

private:
  struct Call {
    OutputCall *of = nullptr;
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
  if (spec.name != kLoadInput && spec.name != kStoreOutput)
    return makeCollective(spec, std::move(special), number);
  auto pin = [&](void *&piece) -> Status {
    Result<void *> pinned = device.allocatePinned(bytes);
    ZC_RETURN_IF_ERROR(pinned.status());
    piece = *pinned;
    return {};
  };
  if (spec.name == kLoadInput) {
    InputCopy::Pieces pieces{};
    for (void *&piece : pieces)
      ZC_RETURN_IF_ERROR(pin(piece));
    return std::unique_ptr<DeviceKernel>(std::make_unique<InputCopy>(std::move(special), pieces, bytes));
  }
  void *piece = nullptr;
  ZC_RETURN_IF_ERROR(pin(piece));
  auto tell = [this, number](Error error) { failed(number, std::move(error)); };
  return std::unique_ptr<DeviceKernel>(std::make_unique<OutputCall>(std::move(special), piece, bytes, slots, tell));
}

} // namespace zc
