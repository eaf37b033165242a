#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/RankSum.h"

namespace zc::cuda {

cudaError_t gpuOrderedSum(const OrderedSum &sum, cudaStream_t stream) {
  const Launcher<Gpu> launch(Frame{}, nullptr, stream);
  return launchOrderedSum(sum, launch) ? static_cast<cudaError_t>(launch.status()) : cudaErrorInvalidValue;
}

cudaError_t gpuRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, cudaStream_t stream) {
  const Launcher<Gpu> launch(Frame{}, nullptr, stream);
  launchRepeatRow(to, from, rows, bytes, launch);
  return static_cast<cudaError_t>(launch.status());
}

} // namespace zc::cuda
