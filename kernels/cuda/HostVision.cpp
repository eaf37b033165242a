#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/Conv.h"
#include "kernels/cuda/GroupNorm.h"
#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Pool.h"

namespace zc::cuda {

void addHostVision(HostKernelRegistry &registry, const PartMaker<Host> &sumsOfProgram) {
  addPools<Host>(registry);
  addBatchNorms<Host>(registry, sumsOfProgram);
  addGroupNorms<Host>(registry);
  addConvs<Host>(registry);
}

} // namespace zc::cuda
