#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Norm.h"

namespace zc::cuda {

void addHostRows(KernelRegistry &registry) {
  addRows<Host>(registry);
  addCrossEntropy<Host>(registry);
  addNorms<Host>(registry);
}

} // namespace zc::cuda
