#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Random.h"

namespace zc::cuda {

void addGpuRandom(GpuKernelRegistry &registry) { addRandom<Gpu>(registry); }

} // namespace zc::cuda
