#include "kernels/Workspace.h"
#include "base/TensorSize.h"
#include "kernels/cuda/Implementations.h"

#include <algorithm>

namespace zc {

WorkspaceFormula workspaceFormula(std::string_view kernel, Target target) {
  return target == Target::cuda ? cuda::workspaceOf(kernel) : traitsOf(kernel).workspace();
}

int64_t workspaceBytes(const KernelSpec &spec, Target target) {
  const WorkspaceFormula formula = workspaceFormula(spec.name, target);
  if (!formula || spec.operands.empty() || !std::all_of(spec.operands.begin(), spec.operands.end(), isCountable))
    return 0;
  return formula(spec);
}

bool mayHaveWorkspace(std::string_view kernel) {
  return workspaceFormula(kernel, Target::cpu) || workspaceFormula(kernel, Target::cuda);
}

} // namespace zc
