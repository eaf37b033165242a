#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Order.h"

namespace zc::cuda {

void addGpuOrder(GpuKernelRegistry &registry) { addOrder<Gpu>(registry); }

} // namespace zc::cuda
