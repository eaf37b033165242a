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

/// Bytes that every GPU's blocks may share without being asked, less what reductions of a body take.
constexpr int64_t kSharedByReductions = 1024, kSharedAlways = 48 * 1024 - kSharedByReductions;

#ifdef __CUDACC__
/// Blocks of one warp that are launched as one: a multiprocessor has room for 64 warps, but for 32 blocks.
constexpr unsigned kWarpsAtOnce = 4;

/// The function may be launched with all of the shared memory that the GPU's blocks may have. The limit is the
/// function's, whoever launches it: ranks that share a GPU do so with other amounts at the same time.
inline cudaError_t takeSharedMemory(const void *function) {
  int device = 0, most = 0;
  cudaFuncAttributes attributes;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess)
    status = cudaFuncGetAttributes(&attributes, function);
  if (status == cudaSuccess)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  most - static_cast<int>(attributes.sharedSizeBytes));
  return status;
}

template <int T, typename Body>
__global__ void __launch_bounds__(T == 32 ? 32 * kWarpsAtOnce : T) runBody(Body body, Frame frame, unsigned blocks) {
  const unsigned index = T == 32 ? blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
  if (T == 32 && index >= blocks)
    return;
  DeviceBlock<T> block;
  body(block, static_cast<int64_t>(index), frame);
}

template <int T, typename Body>
cudaError_t launchBody(unsigned blocks, size_t shared, const Body &body, const Frame &frame, cudaStream_t stream) {
  if (shared > kSharedAlways)
    if (cudaError_t status = takeSharedMemory(reinterpret_cast<const void *>(runBody<T, Body>)); status != cudaSuccess)
      return status;
  // Few go to as many multiprocessors as there are.
  const unsigned warps = T == 32 && blocks >= 4096 ? kWarpsAtOnce : 1;
  runBody<T><<<(blocks - 1) / warps + 1, T * warps, shared, stream>>>(body, frame, blocks);
  return cudaGetLastError();
}
#else
/// The double's: body(i) for each of so many blocks, when the stream is there. `name`: of the body's type; `shared`:
/// bytes that a block's threads share; `arguments`: what the kernel is told.
cudaError_t launchOnHost(const char *name, unsigned blocks, unsigned threads, size_t shared, const void *arguments,
                         size_t bytes, std::function<void(int64_t)> body, cudaStream_t stream);

template <int T, typename Body>
cudaError_t launchBody(unsigned blocks, size_t shared, const Body &body, const Frame &frame, cudaStream_t stream) {
  auto run = [body, frame, shared](int64_t index) mutable {
    std::vector<Pack<uint32_t, 4>> bytes(shared / sizeof(Pack<uint32_t, 4>));
    HostBlock<T> block(bytes.data());
    body(block, index, frame);
  };
  return launchOnHost(typeid(Body).name(), blocks, T, shared, &run, sizeof run, run, stream);
}
#endif

struct Gpu {
  using KernelType = GpuKernel;

  class Launcher {
  public:
    Launcher(const Frame &frame, void *workspace, cudaStream_t stream)
        : frame(frame), space(workspace), stream(stream) {}
    void *workspace() const { return space; }

    /// `shared`: bytes that the threads of a block share, a multiple of 16, up to mostShared().
    template <int T, typename Body> void blocks(int64_t count, const Body &body, int64_t shared = 0) const {
      static_assert(std::is_trivially_copyable_v<Body>, "a kernel is told bytes");
      if (count <= 0) // which CUDA refuses
        return;
      if (count > std::numeric_limits<int32_t>::max()) // as many as a grid may have
        return keep(cudaErrorInvalidConfiguration);
      keep(launchBody<T>(static_cast<unsigned>(count), static_cast<size_t>(shared), body, frame, stream));
    }
    int64_t mostShared() const {
      int device = 0, bytes = 0;
      if (cudaGetDevice(&device) != cudaSuccess ||
          cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return kSharedAlways;
      return std::max<int64_t>(kSharedAlways, bytes - kSharedByReductions);
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
      if (first != cudaSuccess) // memory: of a thread's own, which a kernel's first launch may ask for
        return makeError(first == cudaErrorMemoryAllocation ? Code::budget : Code::internal, 708,
                         "kernel '" + name + "' was not launched: " + cudaGetErrorString(first));
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
