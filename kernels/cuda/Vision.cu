#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/Conv.h"
#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/GroupNorm.h"
#include "kernels/cuda/Pool.h"

namespace zc::cuda {

void addGpuVision(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram) {
  addPools<Gpu>(registry);
  addBatchNorms<Gpu>(registry, sumsOfProgram);
  addGroupNorms<Gpu>(registry);
  addConvs<Gpu>(registry);
}

} // namespace zc::cuda
