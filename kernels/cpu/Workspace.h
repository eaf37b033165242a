//===- Workspace.h - bytes that the CPU's kernels work in, plain or fast -------===//
#pragma once

#include "kernels/Kernel.h"

#include <string_view>

namespace zc::cpu {

/// See kernels/Workspace.h.
int64_t workspaceBytes(const KernelSpec &spec);
bool mayHaveWorkspace(std::string_view kernel);

} // namespace zc::cpu
