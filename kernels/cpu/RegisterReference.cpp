#include "kernels/cpu/Registries.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/LinearParts.h"

namespace zc {

const KernelRegistry &cpu::plainKernels() {
  static const KernelRegistry all = [] {
    KernelRegistry filled;
    registerReferenceKernels(filled);
    return filled;
  }();
  return all;
}

void registerReferenceKernels(KernelRegistry &registry) {
  registry.implementedBy({Implementation::Kind::reference, {}});
  for (auto add : {cpu::addElementwise, cpu::addActivation,
                   cpu::addCast,        cpu::addMove,
                   cpu::addConstant,    cpu::addIndex,
                   cpu::addScatter,     cpu::addOrder,
                   cpu::addReduce,      cpu::addMatmul,
                   cpu::addNorm,        cpu::addSoftmax,
                   cpu::addAttention,   cpu::addCrossEntropy,
                   cpu::addDropout,     cpu::addOptimizer,
                   cpu::addMetrics,     cpu::addConv,
                   cpu::addPool,        cpu::addBatchNorm,
                   cpu::addQuantize,    cpu::addLinearCrossEntropy,
                   cpu::addFused,       cpu::addGroupNorm})
    add(registry);
  cpu::addLinear(registry, [](const KernelSpec &part) { return cpu::plainKernels().prepare(part); });
}

} // namespace zc
