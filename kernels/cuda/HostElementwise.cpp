#include "kernels/cuda/Casts.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Random.h"

namespace zc::cuda {

void addHostElementwise(KernelRegistry &registry) {
  addFunctions<Host>(registry);
  addArithmetic<Host>(registry);
  addCasts<Host>(registry);
  addRandom<Host>(registry);
}

} // namespace zc::cuda
