#include "kernels/Workspace.h"
#include "kernels/cuda/Head.h"
#include "kernels/cuda/Kernels.h"

namespace zc::cuda {

/// Products are the CPU's plain ones here.
void addHostHeads(KernelRegistry &registry) {
  auto plain = std::make_shared<KernelRegistry>();
  registerReferenceKernels(*plain);
  addHeads<Host>(registry, [plain](KernelSpec spec) {
    spec.workspace = workspaceBytes(spec, Target::cpu); // is not looked at
    return plain->prepare(spec);
  });
}

} // namespace zc::cuda
