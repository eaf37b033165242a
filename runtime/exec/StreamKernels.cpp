#include "runtime/exec/StreamKernels.h"

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

} // namespace

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
  auto tell = [this, number](Error error) { failed(number, std::move(error)); };
  if (spec.name != "load_input" && spec.name != "store_output")
    return device.prepareCollective(spec, std::move(special), tell);
  Result<void *> pinned = device.allocatePinned(bytes);
  if (!pinned)
    return pinned.error();
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<HostCall>(std::move(special), *pinned, bytes, spec.name == "load_input", slots, tell));
}

} // namespace zc
