#include "kernels/cuda/Attention.h"
#include "kernels/cuda/Gpu.h"

namespace zc::cuda {

void addGpuAttention(GpuKernelRegistry &registry) { addAttentions<Gpu>(registry); }

} // namespace zc::cuda
