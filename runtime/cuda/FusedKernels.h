//===- FusedKernels.h - fused programs, compiled by NVRTC ------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// `fused`. Preparing one needs NVRTC, and the GPU that it will run on as the current one; programs of one source share
/// their code.
void addFusedKernels(GpuKernelRegistry &registry);

/// Compiles what the fused programs of a plan need for the current GPU, on as many threads: a tenth of a second each,
/// which preparing them one after the other would take.
void compileFused(const std::vector<KernelSpec> &specs, int threads);

/// Of a batch_norm_grad_sums with a program, the same way: leaves partial sums where the workspace begins
/// (kernels/cuda/ChannelSums.h).
Result<std::unique_ptr<GpuKernel>> prepareProgramSums(const KernelSpec &spec);

} // namespace zc::cuda
