#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuElementwise(GpuKernelRegistry &registry) {
  addFunctions<Gpu>(registry);
  addArithmetic<Gpu>(registry);
  addCasts<Gpu>(registry);
  addRandom<Gpu>(registry);
}

} // namespace zc::cuda
