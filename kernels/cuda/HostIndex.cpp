#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Order.h"
#include "kernels/cuda/Scatter.h"

namespace zc::cuda {

void addHostIndex(KernelRegistry &registry) {
  addScatters<Host>(registry);
  addOrder<Host>(registry);
}

} // namespace zc::cuda
