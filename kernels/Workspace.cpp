#include "kernels/Workspace.h"
#include "kernels/cpu/Workspace.h"
#include "kernels/cuda/Workspace.h"

namespace zc {

int64_t workspaceBytes(const KernelSpec &spec, Target target) {
  switch (target) {
  case Target::cpu:
    return cpu::workspaceBytes(spec);
  case Target::cuda:
    return cuda::workspaceBytes(spec);
  }
  return 0;
}

bool mayHaveWorkspace(std::string_view kernel) {
  return cpu::mayHaveWorkspace(kernel) || cuda::mayHaveWorkspace(kernel);
}

} // namespace zc
