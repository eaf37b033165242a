#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

#ifdef __CUDACC__
__global__ void doNothing() {}
#else
static void doNothing() {}
#endif

cudaError_t gpuHasCode() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(doNothing));
  if (status != cudaSuccess)
    (void)cudaGetLastError(); // not of those who ask next
  return status;
}

} // namespace zc::cuda
