#include "test/kernels/OnGpu.h"

#include "runtime/cuda/Cuda.h"

#include <cstdio>
#include <cstdlib>

namespace zc::test {

namespace {

/// A GPU with one stream and a piece of its memory. A new one is opened when a kernel has found something wrong: it
/// does not forget.
class Gpu {
public:
  static constexpr uint64_t kBytes = uint64_t(1) << 30;

  Gpu() { open(); }
  void open() {
    stream.reset();
    device.reset();
    device = take(openCudaDevice({}));
    memory = static_cast<char *>(take(device->allocate(kBytes)));
    context = static_cast<StepContext *>(take(device->allocate(sizeof(StepContext))));
    stream = take(device->makeStream());
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  char *memory = nullptr;
  StepContext *context = nullptr;
  uint32_t runs = 0;

private:
  template <typename T> static T take(Result<T> result) {
    if (result.ok())
      return std::move(*result);
    std::fprintf(stderr, "%s\n", render(result.error()).c_str());
    std::exit(4);
  }
};

Gpu &gpu() {
  static Gpu one;
  return one;
}

class OnGpu : public Kernel {
public:
  explicit OnGpu(const KernelSpec &spec) : spec(spec) {}

  Status run(void *const *operands, const StepContext &context) override {
    std::vector<uint64_t> bytes;
    for (const TensorType &type : spec.operands)
      bytes.push_back(static_cast<uint64_t>(type.numBytes()));
    if (spec.workspace > 0)
      bytes.push_back(static_cast<uint64_t>(spec.workspace));
    // As far from a multiple of 64 as on the host: kernels ask for alignment.
    std::vector<void *> there;
    uint64_t at = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      at = (at + 255) / 256 * 256 + reinterpret_cast<uintptr_t>(operands[i]) % 64;
      there.push_back(gpu().memory + at);
      at += bytes[i];
    }
    if (at > Gpu::kBytes)
      return makeError(Code::budget, 0, "the test needs more than the GPU was asked for");
    Device &device = *gpu().device;
    for (size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] > 0)
        ZC_RETURN_IF_ERROR(device.write(there[i], operands[i], bytes[i]));
    ZC_RETURN_IF_ERROR(device.write(gpu().context, &context, sizeof context));
    // Prepared for each run: the device may be another one by now.
    auto kernel = device.prepare(spec, gpu().runs++);
    ZC_RETURN_IF_ERROR(kernel.status());
    ZC_RETURN_IF_ERROR((*kernel)->enqueue(there.data(), {&context, gpu().context, 0}, *gpu().stream));
    ZC_RETURN_IF_ERROR(gpu().stream->drain());
    if (std::optional<Device::Fault> fault = device.fault()) {
      Error error = fault->error;
      gpu().open();
      return error;
    }
    for (size_t i = spec.numInputs; i < spec.operands.size(); ++i)
      if (bytes[i] > 0)
        ZC_RETURN_IF_ERROR(device.read(operands[i], there[i], bytes[i]));
    return {};
  }

private:
  KernelSpec spec;
};

} // namespace

KernelRegistry onGpu(const std::vector<std::string> &names) {
  KernelRegistry registry(Target::cuda);
  for (const std::string &name : names)
    registry.add(name, [](const KernelSpec &spec) -> Result<std::unique_ptr<Kernel>> {
      ZC_RETURN_IF_ERROR(gpu().device->prepare(spec, 0).status());
      return std::unique_ptr<Kernel>(std::make_unique<OnGpu>(spec));
    });
  return registry;
}

} // namespace zc::test
