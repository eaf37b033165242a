#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuFunctions(GpuKernelRegistry &registry) { addFunctions<Gpu>(registry); }

} // namespace zc::cuda
