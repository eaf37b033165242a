#include "runtime/cuda/Driver.h"

#include <cuda_runtime.h>

namespace zc::cuda {

const Driver &Driver::instance() {
  static const Driver driver = [] {
    Driver found;
    void *symbol = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", &symbol, 12000, cudaEnableDefault, &result);
#else
    cudaError_t status = cudaGetDriverEntryPoint("cuStreamWaitValue64", &symbol, cudaEnableDefault, &result);
#endif
    if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
      found.waitValue = reinterpret_cast<decltype(found.waitValue)>(symbol);
    (void)cudaGetLastError(); // not of those who ask next
    return found;
  }();
  return driver;
}

} // namespace zc::cuda
