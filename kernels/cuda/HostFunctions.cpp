#include "kernels/cuda/Casts.h"
#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/HostKernels.h"

namespace zc::cuda {

void addHostFunctions(HostKernelRegistry &registry) {
  addFunctions<Host>(registry);
  addCasts<Host>(registry);
}

} // namespace zc::cuda
