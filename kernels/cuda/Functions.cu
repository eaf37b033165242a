#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuFunctions(GpuKernelRegistry &registry) {
  addFunctions<Gpu>(registry);
  addRandom<Gpu>(registry);
}

} // namespace zc::cuda
