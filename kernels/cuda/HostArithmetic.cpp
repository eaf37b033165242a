#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Random.h"

namespace zc::cuda {

void addHostArithmetic(HostKernelRegistry &registry) {
  addArithmetic<Host>(registry);
  addRandom<Host>(registry);
}

} // namespace zc::cuda
