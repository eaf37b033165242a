#include "runtime/cuda/Driver.h"

#include <cuda_runtime.h>

namespace zc::cuda {

template <typename Function> static void ask(Function &function, const char *name) {
  void *symbol = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  cudaError_t status = cudaGetDriverEntryPointByVersion(name, &symbol, 12000, cudaEnableDefault, &result);
#else
  cudaError_t status = cudaGetDriverEntryPoint(name, &symbol, cudaEnableDefault, &result);
#endif
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
    function = reinterpret_cast<Function>(symbol);
  (void)cudaGetLastError(); // not of those who ask next
}

const Driver &Driver::instance() {
  static const Driver driver = [] {
    Driver found;
    ask(found.waitValue, "cuStreamWaitValue64");
    ask(found.loadModule, "cuModuleLoadData");
    ask(found.getFunction, "cuModuleGetFunction");
    ask(found.launch, "cuLaunchKernel");
    return found;
  }();
  return driver;
}

} // namespace zc::cuda
