#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/RankSum.h"

namespace zc::cuda {

cudaError_t gpuOrderedSum(const OrderedSum &sum, cudaStream_t stream) {
  Gpu::Launcher launch(Frame{}, nullptr, stream);
  return launchOrderedSum(sum, launch) ? launch.status() : cudaErrorInvalidValue;
}

cudaError_t gpuRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, cudaStream_t stream) {
  Gpu::Launcher launch(Frame{}, nullptr, stream);
  if (bytes % 8 == 0 && reinterpret_cast<uintptr_t>(to) % 8 == 0 && reinterpret_cast<uintptr_t>(from) % 8 == 0)
    launchRepeatRow(static_cast<uint64_t *>(to), static_cast<const uint64_t *>(from), rows, bytes / 8, launch);
  else
    launchRepeatRow(static_cast<uint16_t *>(to), static_cast<const uint16_t *>(from), rows, bytes / 2, launch);
  return launch.status();
}

} // namespace zc::cuda
