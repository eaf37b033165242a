// Every kernel of this folder over HostBlock.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Quantize.h"
#include "kernels/cuda/Update.h"

namespace zc::cuda {

void registerHostBlockKernels(KernelRegistry &registry) {
  addHostElementwise(registry);
  addHostMove(registry);
  addHostRows(registry);
  addHostIndex(registry);
  addHostVision(registry);
  addHostAttention(registry);
  addHostHeads(registry);
  addOptimizers<Host>(registry);
  addMetrics<Host>(registry);
  addQuantization<Host>(registry);
}

} // namespace zc::cuda
