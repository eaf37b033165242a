//===- Matmul.h - products by cuBLASLt --------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// matmul, matmul_part, and linear_gelu_grad, with the registry's gelu_grad where the library has none. Preparing them
/// needs the library, and the GPU that they will run on as the current one.
void addMatmul(GpuKernelRegistry &registry);

} // namespace zc::cuda
