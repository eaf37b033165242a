//===- WorkspaceFormulas.h - what each target's kernels work in ------------------===//
#pragma once

#include "kernels/Kernel.h"

#include <string_view>
#include <vector>

namespace zc {

/// Bytes for specs of the kernel, which have operands; 0 for specs that no kernel takes.
struct WorkspaceFormula {
  std::string_view kernel;
  int64_t (*bytes)(const KernelSpec &);
};

// Kernels that are not listed have none.
namespace cpu {
const std::vector<WorkspaceFormula> &workspaceFormulas();
}
namespace cuda {
const std::vector<WorkspaceFormula> &workspaceFormulas();
}

} // namespace zc
