#include "kernels/cuda/Gather.h"
#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Move.h"
#include "kernels/cuda/Reduce.h"

namespace zc::cuda {

void addGpuMove(GpuKernelRegistry &registry) {
  addReductions<Gpu>(registry);
  addMoves<Gpu>(registry);
  addGathers<Gpu>(registry);
}

} // namespace zc::cuda
