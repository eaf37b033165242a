//===- Support.h - what every CPU kernel's factory uses -----------------------===//
#pragma once

#include "kernels/shapes/Support.h"

namespace zc::cpu {
using namespace shapes;

// One function per file of reference/, each adding its kernels.
void addElementwise(KernelRegistry &registry);
void addActivation(KernelRegistry &registry);
void addCast(KernelRegistry &registry);
void addMove(KernelRegistry &registry);
void addConstant(KernelRegistry &registry);
void addIndex(KernelRegistry &registry);
void addScatter(KernelRegistry &registry);
void addOrder(KernelRegistry &registry);
void addReduce(KernelRegistry &registry);
void addMatmul(KernelRegistry &registry);
void addNorm(KernelRegistry &registry);
void addSoftmax(KernelRegistry &registry);
void addAttention(KernelRegistry &registry);
void addCrossEntropy(KernelRegistry &registry);
void addLinearCrossEntropy(KernelRegistry &registry);
void addFused(KernelRegistry &registry);
void addDropout(KernelRegistry &registry);
void addOptimizer(KernelRegistry &registry);
void addMetrics(KernelRegistry &registry);
void addQuantize(KernelRegistry &registry);
void addConv(KernelRegistry &registry);
void addPool(KernelRegistry &registry);
void addBatchNorm(KernelRegistry &registry);
void addGroupNorm(KernelRegistry &registry);

} // namespace zc::cpu
