#include "kernels/Workspace.h"
#include "base/TensorSize.h"
#include "kernels/cuda/Implementations.h"

#include <algorithm>

namespace zc {

WorkspaceFormula workspaceFormula(std::string_view kernel, Target target) {
  return target == Target::cuda ? cuda::workspaceOf(kernel) : traitsOf(kernel).workspace();
}

static bool areCountable(const KernelSpec &spec) {
  return !spec.operands.empty() && std::all_of(spec.operands.begin(), spec.operands.end(), isCountable);
}

int64_t workspaceBytes(const KernelSpec &spec, Target target) {
  const WorkspaceFormula formula = workspaceFormula(spec.name, target);
  return formula && areCountable(spec) ? formula(spec) : 0;
}

KeptInput keptInput(const KernelSpec &spec, Target target) {
  const KernelTraits::Kept &kept = traitsOf(spec.name).keeps();
  if (target != Target::cpu || !kept.formula || !areCountable(spec))
    return {};
  return {kept.input, kept.formula(spec)};
}

bool mayHaveWorkspace(std::string_view kernel) {
  return workspaceFormula(kernel, Target::cpu) || workspaceFormula(kernel, Target::cuda);
}

} // namespace zc
