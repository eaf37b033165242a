#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Update.h"

namespace zc::cuda {

void addHostUpdates(HostKernelRegistry &registry) {
  addOptimizers<Host>(registry);
  addMetrics<Host>(registry);
}

} // namespace zc::cuda
