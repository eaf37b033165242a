//===- Kernels.h - all families, for one target ---------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::cuda {

/// The kernels of this folder on a host's blocks: what a GPU computes, on machines without one. For tests.
void registerHostBlockKernels(KernelRegistry &registry);

// Its parts, compiled apart.
void addHostElementwise(KernelRegistry &registry);
void addHostMove(KernelRegistry &registry);
void addHostRows(KernelRegistry &registry);
void addHostIndex(KernelRegistry &registry);
void addHostVision(KernelRegistry &registry);
void addHostAttention(KernelRegistry &registry);
void addHostHeads(KernelRegistry &registry);

} // namespace zc::cuda
