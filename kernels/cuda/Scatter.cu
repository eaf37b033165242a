#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Scatter.h"

namespace zc::cuda {

void addGpuScatters(GpuKernelRegistry &registry) { addScatters<Gpu>(registry); }

} // namespace zc::cuda
