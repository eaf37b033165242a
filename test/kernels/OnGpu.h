//===- OnGpu.h - kernels of a GPU, called as a host's -------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::test {

/// Kernels of these names on the GPU that libzc_cuda.so finds: operands go there and come back with each run. Ends the
/// program where there is none.
KernelRegistry onGpu(const std::vector<std::string> &names);

} // namespace zc::test
