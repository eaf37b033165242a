#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Norm.h"

namespace zc::cuda {

void addHostNorms(HostKernelRegistry &registry) { addNorms<Host>(registry); }

} // namespace zc::cuda
