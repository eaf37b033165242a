#include "kernels/cuda/Attention.h"
#include "kernels/cuda/Kernels.h"

namespace zc::cuda {

void addHostAttention(KernelRegistry &registry) { addAttentions<Host>(registry); }

} // namespace zc::cuda
