#include "kernels/Workspace.h"
#include "kernels/cpu/LinearParts.h"
#include "kernels/cuda/Head.h"
#include "kernels/cuda/Kernels.h"

namespace zc::cuda {

/// Products, also those with a gelu's gradient, are the CPU's plain ones here.
void addHostHeads(KernelRegistry &registry) {
  auto plain = std::make_shared<KernelRegistry>();
  registerReferenceKernels(*plain);
  auto prepare = [plain](KernelSpec spec) {
    spec.workspace = workspaceBytes(spec, Target::cpu); // is not looked at
    return plain->prepare(spec);
  };
  addHeads<Host>(registry, prepare);
  cpu::addLinear(registry, prepare);
}

} // namespace zc::cuda
