//===- Registries.h - the kernels of CPUs, for who makes something of them ------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::cpu {

/// What registerReferenceKernels and registerCpuKernels register, once per process.
const KernelRegistry &plainKernels();
const KernelRegistry &fastKernels();

} // namespace zc::cpu
