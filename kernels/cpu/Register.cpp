#include "kernels/cpu/fast/Fast.h"

namespace zc {

static void addPlain(KernelRegistry &registry) {
  for (auto add : {cpu::addElementwise, cpu::addActivation, cpu::addCast, cpu::addMove, cpu::addConstant, cpu::addIndex,
                   cpu::addReduce, cpu::addMatmul, cpu::addNorm, cpu::addSoftmax, cpu::addAttention,
                   cpu::addCrossEntropy, cpu::addDropout, cpu::addOptimizer, cpu::addMetrics})
    add(registry);
}

void registerCpuKernels(KernelRegistry &registry, bool referenceOnly) {
  addPlain(registry);
  if (referenceOnly)
    return;
  auto plain = std::make_shared<KernelRegistry>();
  addPlain(*plain);
  cpu::Overlay overlay(registry, plain);
  for (auto add : {cpu::addFastMatmul, cpu::addFastOptimizer, cpu::addFastActivation, cpu::addFastSoftmax,
                   cpu::addFastNorm, cpu::addFastElementwise, cpu::addFastReduce, cpu::addFastAttention,
                   cpu::addFastMove, cpu::addFastGather, cpu::addFastMetrics})
    add(overlay);
}

} // namespace zc
