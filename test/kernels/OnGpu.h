//===- OnGpu.h - kernels of a GPU, called as a host's -------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::test {

/// Kernels of these names on the GPU that libzc_cuda.so finds: operands go there and come back with each run. Ends the
/// program where there is none. What a kernel writes beside its results, or of what it reads, is an error. With
/// ZC_TEST_SANITIZER each operand has an allocation of its own.
KernelRegistry onGpu(const std::vector<std::string> &names);

/// Is a call of this kernel to go to the GPU? With ZC_TEST_SANITIZER, where each takes long, the first of its element
/// type among small ones, middling ones and large ones; else always.
bool isSampled(const KernelSpec &spec);

} // namespace zc::test
