//===- LinearParts.h - a product with the gelu's gradient it is for, as two kernels -------------===//
//
// `linear_gelu_grad` is a product and what follows it, in one kernel where a library has one. Whoever has not computes
// them one after the other: the bits are then those of the two apart.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::shapes {

struct LinearParts {
  KernelSpec product;    ///< a matmul: of operands 0 and 1 into the result, with the spec's threads and workspace
  KernelSpec activation; ///< gelu_grad {tanh}: of the result, where it stands, and operand 2

  /// Operands: lhs, rhs, input, result. What else is wrong with a spec its parts say. Errors: corrupt plan.
  static Result<LinearParts> of(const KernelSpec &spec);
};

/// Operands of the two, with the workspace.
inline std::array<void *, 4> productOperands(void *const *step, bool hasWorkspace) {
  return {step[0], step[1], step[3], hasWorkspace ? step[4] : nullptr};
}
inline std::array<void *, 3> activationOperands(void *const *step) { return {step[3], step[2], step[3]}; }

/// Makes a kernel that a kernel is made of.
using PartFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec &)>;

/// linear_gelu_grad, of parts that `make` prepares.
void addLinear(KernelRegistry &registry, const PartFactory &make);

} // namespace zc::shapes
