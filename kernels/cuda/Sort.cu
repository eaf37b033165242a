#include "kernels/cuda/GpuRegistry.h"

#include <cub/device/device_radix_sort.cuh>

namespace zc::cuda {

cudaError_t gpuSortPairs(int32_t *keys, int32_t *values, int64_t n, void *space, int64_t spaceBytes,
                         cudaStream_t stream) {
  size_t bytes = 0;
  auto number = static_cast<int>(n);
  auto sort = [&](void *in) {
    return cub::DeviceRadixSort::SortPairs(in, bytes, keys, keys + n, values, values + n, number, 0, 32, stream);
  };
  if (cudaError_t status = sort(nullptr); status != cudaSuccess)
    return status;
  return bytes > static_cast<size_t>(spaceBytes) ? cudaErrorInvalidValue : sort(space);
}

} // namespace zc::cuda
