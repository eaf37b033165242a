// Where cuDNN is not there: kernels are ours, with a note. Or it fails as a test asks.
#include "runtime/cuda/CudnnGraph.h"
#include "test/cuda/double/Double.h"

namespace zc::cuda {

static Error missing() { return makeError(Code::unsupported, 630, "\"libcudnn.so.9\" cannot be loaded"); }

static Error failed() {
  const auto code = static_cast<Code>(doubled::options().cudnn);
  return code == Code::unsupported ? missing() : makeError(code, 642, "cuDNN cannot prepare a graph");
}

Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const CudnnAttention &, const std::string &) {
  return failed();
}
Result<std::unique_ptr<CudnnGraph>> buildConvGraph(const CudnnConv &, const std::string &) { return failed(); }
Result<std::string> describeForCudnn(const std::string &) { return missing(); }

} // namespace zc::cuda
