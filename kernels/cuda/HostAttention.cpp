#include "kernels/cuda/Attention.h"
#include "kernels/cuda/HostKernels.h"

namespace zc::cuda {

void addHostAttention(HostKernelRegistry &registry) { addAttentions<Host>(registry); }

} // namespace zc::cuda
