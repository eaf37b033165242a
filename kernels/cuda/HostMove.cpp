#include "kernels/cuda/Gather.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Move.h"
#include "kernels/cuda/Reduce.h"

namespace zc::cuda {

void addHostMove(KernelRegistry &registry) {
  addReductions<Host>(registry);
  addMoves<Host>(registry);
  addGathers<Host>(registry);
}

} // namespace zc::cuda
