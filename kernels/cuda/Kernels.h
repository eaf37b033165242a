//===- Kernels.h - all families, on a host's blocks -----------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::cuda {

/// The kernels of this folder on a host's blocks, run at once: what a GPU computes, on machines without one. For tests.
void registerHostBlockKernels(KernelRegistry &registry);

} // namespace zc::cuda
