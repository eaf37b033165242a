// Where cuDNN is not there: kernels are ours, with a note.
#include "runtime/cuda/CudnnGraph.h"

namespace zc::cuda {

static Error missing() { return makeError(Code::unsupported, 630, "\"libcudnn.so.9\" cannot be loaded"); }

Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const CudnnAttention &, const std::string &) {
  return missing();
}
Result<std::unique_ptr<CudnnGraph>> buildConvGraph(const CudnnConv &, const std::string &) { return missing(); }
Result<std::string> describeForCudnn(const std::string &) { return missing(); }

} // namespace zc::cuda
