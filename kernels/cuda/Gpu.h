//===- Gpu.h - launching bodies on a stream ---------------------------------------===//
//
// For .cu files only. A kernel enqueues and returns; nothing is allocated and nothing waits. A compiler of the host
// takes them too: what launches is then a double of CUDA's runtime (test/cuda/double), and blocks are a host's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

#include <cuda_runtime.h>
#include <typeinfo>

namespace zc::cuda {

#ifdef __CUDACC__
template <int T, typename Body> __global__ void __launch_bounds__(T) runBody(Body body, Frame frame) {
  DeviceBlock<T> block;
  body(block, static_cast<int64_t>(blockIdx.x), frame);
}

template <int T, typename Body>
cudaError_t launchBody(unsigned blocks, const Body &body, const Frame &frame, cudaStream_t stream) {
  runBody<T><<<blocks, T, 0, stream>>>(body, frame);
  return cudaGetLastError();
}
#else
/// The double's: body(i) for each of so many blocks, when the stream is there. `name`: of the body's type; `arguments`:
/// what the kernel is told.
cudaError_t launchOnHost(const char *name, unsigned blocks, unsigned threads, const void *arguments, size_t bytes,
                         std::function<void(int64_t)> body, cudaStream_t stream);

template <int T, typename Body>
cudaError_t launchBody(unsigned blocks, const Body &body, const Frame &frame, cudaStream_t stream) {
  auto run = [body, frame](int64_t index) mutable {
    HostBlock<T> block;
    body(block, index, frame);
  };
  return launchOnHost(typeid(Body).name(), blocks, T, &run, sizeof run, run, stream);
}
#endif

struct Gpu {
  using KernelType = GpuKernel;

  class Launcher {
  public:
    Launcher(const Frame &frame, void *workspace, cudaStream_t stream)
        : frame(frame), space(workspace), stream(stream) {}
    void *workspace() const { return space; }

    template <int T, typename Body> void blocks(int64_t count, const Body &body) const {
      static_assert(std::is_trivially_copyable_v<Body>, "a kernel is told bytes");
      if (count <= 0) // which CUDA refuses
        return;
      if (count > std::numeric_limits<int32_t>::max()) // as many as a grid may have
        return keep(cudaErrorInvalidConfiguration);
      keep(launchBody<T>(static_cast<unsigned>(count), body, frame, stream));
    }
    void zero(void *bytes, int64_t count) const {
      if (count)
        keep(cudaMemsetAsync(bytes, 0, static_cast<size_t>(count), stream));
    }
    void copy(void *to, const void *from, int64_t count) const {
      if (count && to != from)
        keep(cudaMemcpyAsync(to, from, static_cast<size_t>(count), cudaMemcpyDeviceToDevice, stream));
    }
    void sortPairs(int32_t *keys, int32_t *values, int64_t n, void *space) const {
      keep(gpuSortPairs(keys, values, n, space, sortBytes(n), stream));
    }
    /// A kernel that was prepared apart; not after one has failed.
    void call(GpuKernel &part, void *const *operands) const {
      if (ofParts.ok())
        ofParts = part.enqueue(operands, frame, stream);
    }
    cudaError_t status() const { return first; }
    /// Of kernel `name`, and of the parts that it called.
    Status statusOf(const std::string &name) const {
      if (first != cudaSuccess)
        return makeError(Code::internal, 708, "kernel '" + name + "' was not launched: " + cudaGetErrorString(first));
      return ofParts;
    }

  private:
    void keep(cudaError_t status) const {
      if (first == cudaSuccess)
        first = status;
    }
    Frame frame;
    void *space;
    cudaStream_t stream;
    mutable cudaError_t first = cudaSuccess;
    mutable Status ofParts;
  };

  template <typename Fn> class Launched : public GpuKernel {
  public:
    Launched(const KernelSpec &spec, Fn fn)
        : name(spec.name), fn(std::move(fn)), workspaceAt(spec.workspace ? spec.operands.size() : 0) {}
    Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) override {
      Launcher launch(frame, workspaceAt ? operands[workspaceAt] : nullptr, stream);
      fn(operands, launch);
      return launch.statusOf(name);
    }

  private:
    std::string name;
    Fn fn;
    size_t workspaceAt; ///< 0: none
  };
};

} // namespace zc::cuda
