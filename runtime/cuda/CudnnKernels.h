//===- CudnnKernels.h - attention and convolutions by cuDNN, or ours ------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// attention, attention_grad, conv, conv_transpose, conv_weight_grad: by cuDNN where it takes the spec; where it is
/// missing or refuses, by the kernels that `registry` has for them, with a note.
void addCudnnKernels(GpuKernelRegistry &registry);

} // namespace zc::cuda
