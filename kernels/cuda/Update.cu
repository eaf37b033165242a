#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Quantize.h"
#include "kernels/cuda/Update.h"

namespace zc::cuda {

void addGpuUpdate(GpuKernelRegistry &registry) {
  addOptimizers<Gpu>(registry);
  addMetrics<Gpu>(registry);
  addQuantization<Gpu>(registry);
}

} // namespace zc::cuda
