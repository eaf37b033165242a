//===- Gpu.h - launching bodies on a stream ---------------------------------------===//
//
// For .cu files only. A kernel enqueues and returns; nothing is allocated and nothing waits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuQueue.h"

#include <cuda_runtime.h>

namespace zc::cuda {

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

/// A stream as a target.
struct Gpu {
  using Handle = cudaStream_t;
  using KernelType = GpuKernel;

  class Queue : public GpuQueue {
  public:
    using GpuQueue::GpuQueue;
    template <int T, typename Body>
    LaunchStatus launch(unsigned blocks, size_t shared, const Body &body, const Frame &frame) const {
      return launchBody<T>(blocks, shared, body, frame, stream);
    }
  };
};

// Families, a .cu each.
void addGpuArithmetic(GpuKernelRegistry &registry);
void addGpuAttention(GpuKernelRegistry &registry);
void addGpuCasts(GpuKernelRegistry &registry);
void addGpuFunctions(GpuKernelRegistry &registry);
void addGpuScatters(GpuKernelRegistry &registry);
void addGpuMove(GpuKernelRegistry &registry);
void addGpuOptimizers(GpuKernelRegistry &registry);
void addGpuOrder(GpuKernelRegistry &registry);
void addGpuQuantization(GpuKernelRegistry &registry);
void addGpuRandom(GpuKernelRegistry &registry);
void addGpuReductions(GpuKernelRegistry &registry);
void addGpuRows(GpuKernelRegistry &registry);
void addGpuVision(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram);

} // namespace zc::cuda
