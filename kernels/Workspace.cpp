#include "kernels/Workspace.h"
#include "kernels/WorkspaceFormulas.h"
#include "runtime/base/TensorSize.h"

#include <algorithm>

namespace zc {

static const WorkspaceFormula *find(std::string_view kernel, Target target) {
  const std::vector<WorkspaceFormula> &formulas =
      target == Target::cuda ? cuda::workspaceFormulas() : cpu::workspaceFormulas();
  auto found = std::find_if(formulas.begin(), formulas.end(),
                            [&](const WorkspaceFormula &formula) { return formula.kernel == kernel; });
  return found == formulas.end() ? nullptr : &*found;
}

int64_t workspaceBytes(const KernelSpec &spec, Target target) {
  const WorkspaceFormula *formula = find(spec.name, target);
  if (!formula || spec.operands.empty() || !std::all_of(spec.operands.begin(), spec.operands.end(), isCountable))
    return 0;
  return formula->bytes(spec);
}

bool mayHaveWorkspace(std::string_view kernel) { return find(kernel, Target::cpu) || find(kernel, Target::cuda); }

} // namespace zc
