#include "kernels/cpu/Support.h"

namespace zc {

void registerCpuKernels(KernelRegistry &registry, bool referenceOnly) {
  for (auto add : {cpu::addElementwise, cpu::addActivation, cpu::addCast, cpu::addMove, cpu::addConstant, cpu::addIndex,
                   cpu::addReduce, cpu::addMatmul, cpu::addNorm, cpu::addSoftmax, cpu::addAttention,
                   cpu::addCrossEntropy, cpu::addDropout, cpu::addOptimizer, cpu::addMetrics})
    add(registry);
  (void)referenceOnly;
}

} // namespace zc
