//===- FusedKernels.h - fused programs, compiled by NVRTC ------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// `fused`. Preparing one needs NVRTC, and the GPU that it will run on as the current one; programs of one source share
/// their code.
void addFusedKernels(GpuKernelRegistry &registry);

/// Of a batch_norm_grad_sums with a program, the same way: leaves partial sums where the workspace begins
/// (kernels/cuda/ChannelSums.h).
Result<std::unique_ptr<GpuKernel>> prepareProgramSums(const KernelSpec &spec);

} // namespace zc::cuda
