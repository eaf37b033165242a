// Families whose threads work together, with a fiber for each thread; of several kernels that have one body, one.
#include "test/kernels/Fibers.h"

#include "kernels/cuda/Attention.h"
#include "kernels/cuda/Head.h"
#include "kernels/cuda/Rows.h"
#include "kernels/cuda/Update.h"
#include "test/kernels/OnFibers.h"

namespace zc::test {

void addRowsOnFibers(cuda::HostKernelRegistry &kernels) {
  using Fibers = cuda::OnHost<cuda::OnFibers>;
  kernels.add("softmax", cuda::prepareSoftmax<Fibers, false>);
  kernels.add("softmax_grad", cuda::prepareSoftmaxGrad<Fibers, false>);
  kernels.add("norm_partial", cuda::prepareNormPartial<Fibers>);
  cuda::addCrossEntropy<Fibers>(kernels);
  kernels.add("linear_cross_entropy_grad", [](const KernelSpec &spec) {
    return cuda::prepareHead<Fibers>(spec, shapes::readHeadGrad(spec), cuda::preparePlainProduct);
  });
  kernels.add("linear_log_softmax_grad", [](const KernelSpec &spec) {
    return cuda::prepareHead<Fibers>(spec, shapes::readLogHeadGrad(spec), cuda::preparePlainProduct);
  });
  cuda::addAttentions<Fibers>(kernels);
}

const KernelRegistry &fiberRegistry() {
  static const KernelRegistry all = [] {
    cuda::HostKernelRegistry kernels;
    addRowsOnFibers(kernels);
    addSumsOnFibers(kernels);
    KernelRegistry filled(Target::cuda);
    cuda::addAtOnce(filled, kernels);
    return filled;
  }();
  return all;
}

} // namespace zc::test
