#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Reduce.h"

namespace zc::cuda {

void addGpuReductions(GpuKernelRegistry &registry) { addReductions<Gpu>(registry); }

} // namespace zc::cuda
