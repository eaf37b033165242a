//===- FusedKernels.h - fused programs, compiled by NVRTC ------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// `fused`. Preparing one needs NVRTC, and the GPU that it will run on as the current one; programs of one source share
/// their code.
void addFusedKernels(GpuKernelRegistry &registry);

} // namespace zc::cuda
