#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Order.h"
#include "kernels/cuda/Scatter.h"

namespace zc::cuda {

void addHostIndex(HostKernelRegistry &registry) {
  addScatters<Host>(registry);
  addOrder<Host>(registry);
}

} // namespace zc::cuda
