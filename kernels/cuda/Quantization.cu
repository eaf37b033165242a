#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Quantize.h"

namespace zc::cuda {

void addGpuQuantization(GpuKernelRegistry &registry) { addQuantization<Gpu>(registry); }

} // namespace zc::cuda
