//===- Implementations.h - who computes what on a GPU -----------------------------===//
//
// One table for all who ask: the registries of a GPU and of a host's blocks, zero-run inspect, and whoever refuses a
// plan before its first step. It needs neither CUDA nor a library: what is said here is what the plugin registers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

#include <set>

namespace zc::cuda {

/// None where there is no implementation.
std::optional<Implementation> implementationOf(const KernelSpec &spec);

/// Kernels that are written over Block.h.
const std::set<std::string> &ownKernels();

} // namespace zc::cuda
