#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Head.h"

namespace zc::cuda {

void addGpuHeads(GpuKernelRegistry &registry) {
  addHeads<Gpu>(registry,
                [parts = partsOfHeads(registry)](const KernelSpec &spec) { return parts.at(spec.name)(spec); });
}

} // namespace zc::cuda
