// Families whose threads make sums together, with a fiber for each thread; of several kernels that have one body, one.
#include "test/kernels/Fibers.h"

#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/GroupNorm.h"
#include "kernels/cuda/Norm.h"
#include "kernels/cuda/Quantize.h"
#include "test/kernels/OnFibers.h"

namespace zc::test {

void addSumsOnFibers(cuda::HostKernelRegistry &kernels) {
  using Fibers = cuda::OnHost<cuda::OnFibers>;
  kernels.add("layer_norm", cuda::prepareNorm<Fibers, true>);
  kernels.add("layer_norm_grad", cuda::prepareNormGrad<Fibers, true>);
  kernels.add("rms_norm", cuda::prepareNorm<Fibers, false>);
  kernels.add("reduce_sum", cuda::prepareReduce<Fibers, cuda::ReductionKind::sum>);
  kernels.add("batch_norm", cuda::prepareBatchNorm<Fibers>);
  kernels.add("batch_norm_grad", cuda::prepareBatchNormGrad<Fibers>);
  kernels.add("group_norm", cuda::prepareGroupNorm<Fibers>);
  kernels.add("group_norm_grad", cuda::prepareGroupNormGrad<Fibers>);
  kernels.add("quantize", cuda::prepareQuantize<Fibers>);
  kernels.add("dequantize_sum_quantize", cuda::prepareDequantizeSumQuantize<Fibers>);
}

} // namespace zc::test
