//===- Implementations.h - who computes what on a GPU -----------------------------===//
//
// One table for all who ask: zero-run inspect, whoever refuses a plan before its first step, and the compiler, which
// plans what kernels work in (Workspace.h). It needs neither CUDA nor a library: what is said here is what the
// plugin registers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

#include <set>

namespace zc::cuda {

/// None where there is no implementation.
std::optional<Implementation> implementationOf(const KernelSpec &spec);

/// Null: it needs none.
WorkspaceFormula workspaceOf(std::string_view kernel);

/// Kernels that are written over Block.h.
const std::set<std::string> &ownKernels();

} // namespace zc::cuda
