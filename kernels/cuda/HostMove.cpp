#include "kernels/cuda/Gather.h"
#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Move.h"

namespace zc::cuda {

void addHostMove(HostKernelRegistry &registry) {
  addMoves<Host>(registry);
  addGathers<Host>(registry);
}

} // namespace zc::cuda
