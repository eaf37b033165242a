#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Norm.h"
#include "kernels/cuda/Rows.h"

namespace zc::cuda {

void addGpuRows(GpuKernelRegistry &registry) {
  addRows<Gpu>(registry);
  addCrossEntropy<Gpu>(registry);
  addNorms<Gpu>(registry);
}

} // namespace zc::cuda
