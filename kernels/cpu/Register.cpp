#include "kernels/cpu/Registries.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/LinearParts.h"

#include <hwy/targets.h>

namespace zc {

bool cpu::hasVectors() { return (hwy::SupportedTargets() & HWY_TARGETS) != 0; }

const KernelRegistry &cpu::fastKernels() {
  static const KernelRegistry all = [] {
    KernelRegistry filled;
    registerCpuKernels(filled);
    return filled;
  }();
  return all;
}

void registerCpuKernels(KernelRegistry &registry, bool referenceOnly) {
  registerReferenceKernels(registry);
  if (referenceOnly || !cpu::hasVectors())
    return;
  // Before any kernel is prepared: until the target is chosen, a dispatch pointer is Highway's stub, and a kernel that
  // kept it would ask CPUID at every call (20-40 us each in a virtual machine).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  registry.implementedBy({Implementation::Kind::own, {}, {}});
  for (auto add : {cpu::addFastOptimizer,   cpu::addFastActivation,    cpu::addFastSoftmax, cpu::addFastNorm,
                   cpu::addFastElementwise, cpu::addFastDropout,       cpu::addFastFused,   cpu::addFastReduce,
                   cpu::addFastAttention,   cpu::addFastAttentionGrad, cpu::addFastMove,    cpu::addFastGather,
                   cpu::addFastIndex,       cpu::addFastExtremum,      cpu::addFastPool,    cpu::addFastPoolLast,
                   cpu::addFastBatchNorm,   cpu::addFastBatchNormLast, cpu::addFastMetrics, cpu::addFastQuantize,
                   cpu::addFastDequantize,  cpu::addFastGroupNorm})
    add(registry);
  registry.implementedBy({Implementation::Kind::library, "OpenBLAS or oneDNN", {}});
  cpu::addFastMatmul(registry);
  cpu::addFastLinearCrossEntropy(registry);
  cpu::addLinear(registry, [](const KernelSpec &part) { return cpu::fastKernels().prepare(part); });
  registry.implementedBy({Implementation::Kind::library, "oneDNN", {}});
  cpu::addFastConv(registry);
  registry.implementedBy({Implementation::Kind::library, "OpenBLAS or oneDNN", {}});
  cpu::addPointConv(registry); // over oneDNN's
  registry.implementedBy({Implementation::Kind::own, {}, {}});
  cpu::addConvColumns(registry);
  cpu::addFastDepthwiseLast(registry);
  cpu::addTiledMatmul(registry);
  cpu::addOrderedMatmul(registry);
}

} // namespace zc
