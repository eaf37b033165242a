#include "kernels/cuda/Casts.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuCasts(GpuKernelRegistry &registry) { addCasts<Gpu>(registry); }

} // namespace zc::cuda
