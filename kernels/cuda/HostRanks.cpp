#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/RankSum.h"

namespace zc::cuda {

bool hostOrderedSum(const OrderedSum &sum, const Launcher<Host> &launch) { return launchOrderedSum(sum, launch); }
void hostRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, const Launcher<Host> &launch) {
  launchRepeatRow(to, from, rows, bytes, launch);
}

} // namespace zc::cuda
