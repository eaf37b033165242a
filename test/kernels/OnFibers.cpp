// Some families whose threads work together, with a fiber for each thread; of all, compiling would take minutes.
#include "test/kernels/Fibers.h"

#include "kernels/cuda/Attention.h"
#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Rows.h"
#include "kernels/cuda/Update.h"
#include "test/kernels/OnFibers.h"

namespace zc::test {

const KernelRegistry &fiberRegistry() {
  static const KernelRegistry all = [] {
    using Fibers = cuda::OnHost<cuda::OnFibers>;
    cuda::HostKernelRegistry kernels;
    cuda::addRows<Fibers>(kernels);
    cuda::addAttentions<Fibers>(kernels);
    cuda::addMetrics<Fibers>(kernels);
    KernelRegistry filled(Target::cuda);
    cuda::addAtOnce(filled, kernels);
    return filled;
  }();
  return all;
}

} // namespace zc::test
