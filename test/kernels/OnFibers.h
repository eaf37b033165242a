#pragma once

#include "kernels/cuda/HostKernels.h"

namespace zc::test {

/// Kernels of the GPU whose threads read what others wrote, with a fiber for each thread of a block (Fibers.h).
const KernelRegistry &fiberRegistry();

// Its parts, compiled apart.
void addRowsOnFibers(cuda::HostKernelRegistry &kernels);
void addSumsOnFibers(cuda::HostKernelRegistry &kernels);

} // namespace zc::test
