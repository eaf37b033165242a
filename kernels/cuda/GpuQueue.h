//===- GpuQueue.h - what launchers ask of a stream ------------------------------------===//
//
// All but launches, which are nvcc's (Gpu.h) or a double's (test/cuda/double).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

static_assert(kLaunched == cudaSuccess && kNoLaunchMemory == cudaErrorMemoryAllocation &&
              kInvalidGrid == cudaErrorInvalidConfiguration);

class GpuQueue {
public:
  explicit GpuQueue(cudaStream_t stream) : stream(stream) {}
  const cudaStream_t stream;

  LaunchStatus zero(void *bytes, size_t count) const { return cudaMemsetAsync(bytes, 0, count, stream); }
  LaunchStatus copy(void *to, const void *from, size_t count) const {
    return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream);
  }
  LaunchStatus sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) const {
    return gpuSortPairs(keys, values, n, scratch, sortBytes(n), stream);
  }
  int64_t mostShared() const {
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
      return kSharedAlways;
    return std::max<int64_t>(kSharedAlways, bytes - kSharedByReductions);
  }
  std::string textOf(LaunchStatus status) const { return cudaGetErrorString(static_cast<cudaError_t>(status)); }
};

/// Whether the build has code of `kernel` for the current GPU.
inline cudaError_t hasCodeOf(const void *kernel) {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
  if (status != cudaSuccess)
    (void)cudaGetLastError(); // not of those who ask next
  return status;
}

} // namespace zc::cuda
