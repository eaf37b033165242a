#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Order.h"
#include "kernels/cuda/Scatter.h"

namespace zc::cuda {

void addGpuIndex(GpuKernelRegistry &registry) {
  addScatters<Gpu>(registry);
  addOrder<Gpu>(registry);
}

} // namespace zc::cuda
