#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Norm.h"
#include "kernels/cuda/Rows.h"

namespace zc::cuda {

void addHostRows(KernelRegistry &registry) {
  addRows<Host>(registry);
  addCrossEntropy<Host>(registry);
  addNorms<Host>(registry);
}

} // namespace zc::cuda
