#include "kernels/cuda/Gather.h"
#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Move.h"

namespace zc::cuda {

void addGpuMove(GpuKernelRegistry &registry) {
  addMoves<Gpu>(registry);
  addGathers<Gpu>(registry);
}

} // namespace zc::cuda
