#include "kernels/cuda/Gpu.h"
#include "kernels/cuda/Head.h"

namespace zc::cuda {

void addGpuHeads(GpuKernelRegistry &registry) {
  std::map<std::string, GpuKernelFactory> parts;
  for (const char *name : {"matmul", "matmul_part", "cast"})
    parts[name] = *registry.find(name);
  addHeads<Gpu>(registry, [parts](const KernelSpec &spec) { return parts.at(spec.name)(spec); });
}

} // namespace zc::cuda
