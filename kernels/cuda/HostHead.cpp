#include "kernels/cuda/Head.h"
#include "kernels/cuda/HostKernels.h"

namespace zc::cuda {

void addHostHeads(HostKernelRegistry &registry, const PartMaker<Host> &make) { addHeads<Host>(registry, make); }

} // namespace zc::cuda
