// What the .cu files of kernels/cuda define, by the same bodies over a host's blocks: what their launchers put onto a
// queue goes onto a stream of the double.
#include "kernels/cuda/GpuQueue.h"
#include "kernels/cuda/HostKernels.h"
#include "test/cuda/double/Double.h"

#include <cstring>

namespace zc::cuda {

namespace {

class StreamQueue : public HostQueue {
public:
  explicit StreamQueue(cudaStream_t stream) : queue(stream) {}
  const GpuQueue queue;

  LaunchStatus launch(const HostLaunch &launch) override {
    std::vector<Pack<uint32_t, 4>> arguments(launch.bytes / sizeof arguments[0] + 1);
    std::memcpy(arguments.data(), launch.arguments, launch.bytes);
    auto run = [late = launch, arguments = std::move(arguments)]() mutable {
      late.arguments = arguments.data();
      runBlocks(late);
    };
    return doubled::launchOnHost(launch.name, launch.blocks, launch.threads, launch.shared, launch.arguments,
                                 launch.bytes, std::move(run), queue.stream);
  }
  LaunchStatus zero(void *bytes, size_t count) override { return queue.zero(bytes, count); }
  LaunchStatus copy(void *to, const void *from, size_t count) override { return queue.copy(to, from, count); }
  LaunchStatus sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) override {
    return queue.sortPairs(keys, values, n, scratch);
  }
  int64_t mostShared() const override { return queue.mostShared(); }
  std::string textOf(LaunchStatus status) const override { return queue.textOf(status); }
};

class KernelOnStream : public GpuKernel {
public:
  explicit KernelOnStream(std::unique_ptr<HostKernel> kernel) : kernel(std::move(kernel)) {}
  Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) override {
    StreamQueue queue(stream);
    return kernel->enqueue(operands, frame, queue);
  }

private:
  std::unique_ptr<HostKernel> kernel;
};

void addOnStream(GpuKernelRegistry &registry, const HostKernelRegistry &kernels) {
  for (const auto &[name, factory] : kernels.all())
    registry.add(name, [factory = factory](const KernelSpec &spec) -> Result<std::unique_ptr<GpuKernel>> {
      Prepared<Host> kernel = factory(spec);
      ZC_RETURN_IF_ERROR(kernel.status());
      return std::unique_ptr<GpuKernel>(std::make_unique<KernelOnStream>(std::move(*kernel)));
    });
}

/// A kernel of a library, as a part of one over a host's blocks.
class LibraryKernel : public HostKernel {
public:
  explicit LibraryKernel(std::unique_ptr<GpuKernel> kernel) : kernel(std::move(kernel)) {}
  Status enqueue(void *const *operands, const Frame &frame, HostQueue &queue) override {
    return kernel->enqueue(operands, frame, static_cast<StreamQueue &>(queue).queue.stream);
  }

private:
  std::unique_ptr<GpuKernel> kernel;
};

Prepared<Host> preparePart(const GpuKernelFactory &factory, const KernelSpec &spec) {
  Result<std::unique_ptr<GpuKernel>> kernel = factory(spec);
  ZC_RETURN_IF_ERROR(kernel.status());
  return std::unique_ptr<HostKernel>(std::make_unique<LibraryKernel>(std::move(*kernel)));
}

} // namespace

void addGpuFamilies(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram) {
  HostKernelRegistry kernels;
  addHostFamilies(kernels, [sumsOfProgram](const KernelSpec &spec) { return preparePart(sumsOfProgram, spec); });
  addOnStream(registry, kernels);
}

void addGpuHeads(GpuKernelRegistry &registry) {
  HostKernelRegistry kernels;
  addHostHeads(kernels, [parts = partsOfHeads(registry)](const KernelSpec &spec) {
    return preparePart(parts.at(spec.name), spec);
  });
  addOnStream(registry, kernels);
}

cudaError_t gpuHasCode() { return hasCodeOf(nullptr); }

cudaError_t gpuOrderedSum(const OrderedSum &sum, cudaStream_t stream) {
  StreamQueue queue(stream);
  const Launcher<Host> launch(Frame{}, nullptr, queue);
  return hostOrderedSum(sum, launch) ? static_cast<cudaError_t>(launch.status()) : cudaErrorInvalidValue;
}

cudaError_t gpuRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, cudaStream_t stream) {
  StreamQueue queue(stream);
  const Launcher<Host> launch(Frame{}, nullptr, queue);
  hostRepeatRow(to, from, rows, bytes, launch);
  return static_cast<cudaError_t>(launch.status());
}

} // namespace zc::cuda
