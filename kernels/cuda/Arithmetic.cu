#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuArithmetic(GpuKernelRegistry &registry) { addArithmetic<Gpu>(registry); }

} // namespace zc::cuda
