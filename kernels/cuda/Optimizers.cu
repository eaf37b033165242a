#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Update.h"

namespace zc::cuda {

void addGpuOptimizers(GpuKernelRegistry &registry) {
  addOptimizers<Gpu>(registry);
  addMetrics<Gpu>(registry);
}

} // namespace zc::cuda
