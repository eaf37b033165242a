#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Rows.h"

namespace zc::cuda {

void addHostRows(HostKernelRegistry &registry) {
  addRows<Host>(registry);
  addCrossEntropy<Host>(registry);
}

} // namespace zc::cuda
