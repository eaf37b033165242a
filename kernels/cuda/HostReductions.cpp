#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Quantize.h"
#include "kernels/cuda/Reduce.h"

namespace zc::cuda {

void addHostReductions(HostKernelRegistry &registry) {
  addReductions<Host>(registry);
  addQuantization<Host>(registry);
}

} // namespace zc::cuda
