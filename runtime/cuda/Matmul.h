//===- Matmul.h - products by cuBLASLt --------------------------------------------------------===//
#pragma once

#include "kernels/cuda/GpuRegistry.h"

namespace zc::cuda {

/// matmul, matmul_part. Preparing them needs the library, and the GPU that they will run on as the current one.
void addMatmul(GpuKernelRegistry &registry);

} // namespace zc::cuda
