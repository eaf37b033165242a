#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/Conv.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Pool.h"

namespace zc::cuda {

void addHostVision(KernelRegistry &registry) {
  addPools<Host>(registry);
  addBatchNorms<Host>(registry);
  addConvs<Host>(registry);
}

} // namespace zc::cuda
