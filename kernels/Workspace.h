//===- Workspace.h - bytes a kernel works in besides its operands -------------===//
//
// All memory of a step is planned: a kernel allocates nothing that grows with its shapes, neither when it is prepared
// nor when it runs. How much it is given is known when a plan is compiled, from shapes, types and the target alone,
// since the plan may run on another machine of that kind than it was compiled on. So for what a library decides on the
// machine (layouts, scratchpads) the amount is an allowance, and a kernel picks what fits into it: fewer threads, then
// another implementation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc {

/// Bytes of workspace for the kernel of `spec` (name, operands, inputs and attributes; threads do not matter): enough
/// for the plain version and for the one that `target` has. 0 for most kernels, for names that are none, and for specs
/// that no kernel takes.
int64_t workspaceBytes(const KernelSpec &spec, Target target);

/// What a kernel makes of an input and can keep: a CPU's of a product's factor of 16 bits, in the order in which it
/// multiplies it, and of a convolution's weight in a library's layout.
struct KeptInput {
  size_t input = 0;
  int64_t bytes = 0; ///< 0: nothing
};
KeptInput keptInput(const KernelSpec &spec, Target target);

/// Where it is recorded for a kernel of that name; null: there is none. A CPU's is with the plain kernel
/// (kernels/cpu/reference), a GPU's in the table of Implementations.h.
WorkspaceFormula workspaceFormula(std::string_view kernel, Target target);

/// May a kernel of that name have one? What tells before a spec is made.
bool mayHaveWorkspace(std::string_view kernel);

} // namespace zc
