#include "runtime/cuda/FusedKernels.h"
#include "kernels/cuda/FusedSource.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Errors.h"
#include "runtime/cuda/Nvrtc.h"

#include <limits>
#include <map>
#include <mutex>

namespace zc::cuda {

namespace {

constexpr const char *kName = "fused";

/// Kernels by source and GPU. Their code stays as long as the process: there are as many as a model has kinds of
/// chains.
class Code {
public:
  Result<CUfunction> get(const std::string &source) {
    int ordinal = 0, major = 0, minor = 0;
    ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
    ZC_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "ask for the GPU");
    ZC_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal), "ask for the GPU");
    std::lock_guard<std::mutex> lock(
        mutex); // ranks of one process prepare the same plan: one compiles, the others wait
    CUfunction &function = functions[{source, ordinal}];
    if (function)
      return function;
    std::string &machineCode = codes[{source, 10 * major + minor}];
    if (machineCode.empty()) {
      Result<std::string> compiled = compileForGpu(source, major, minor);
      ZC_RETURN_IF_ERROR(compiled.status());
      machineCode = std::move(*compiled);
    }
    const Driver &driver = Driver::instance();
    CUmodule module = nullptr;
    CUresult status = driver.loadModule ? driver.loadModule(&module, machineCode.data()) : CUDA_ERROR_NOT_FOUND;
    if (status == CUDA_SUCCESS)
      status = driver.getFunction(&function, module, kName);
    if (status != CUDA_SUCCESS)
      return makeError(zc::Code::internal, 647,
                       "the driver does not load a compiled kernel: CUDA error " + std::to_string(status));
    return function;
  }

private:
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::string> codes; ///< by source and compute capability
  std::map<std::pair<std::string, int>, CUfunction> functions;
};

class FusedKernel : public GpuKernel {
public:
  FusedKernel(FusedSource program, CUfunction function) : program(std::move(program)), function(function) {}
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override {
    if (program.blocks() == 0) // which CUDA refuses
      return {};
    FusedArguments arguments = program.arguments(operands);
    void *parameters[] = {&arguments};
    const CUresult status = Driver::instance().launch(function, static_cast<unsigned>(program.blocks()), 1, 1,
                                                      kElementThreads, 1, 1, 0, stream, parameters, nullptr);
    if (status != CUDA_SUCCESS)
      return makeError(zc::Code::internal, 649,
                       "kernel 'fused' was not launched: CUDA error " + std::to_string(status));
    return {};
  }

private:
  FusedSource program;
  CUfunction function;
};

Result<std::unique_ptr<GpuKernel>> prepareFused(const KernelSpec &spec) {
  static Code code;
  Result<FusedSource> program = FusedSource::of(spec);
  ZC_RETURN_IF_ERROR(program.status());
  if (program->blocks() > std::numeric_limits<int32_t>::max())
    return makeError(zc::Code::unsupported, 648, "kernel 'fused' has more elements than a grid takes");
  Result<CUfunction> function = code.get("#include \"kernels/cuda/FusedKernel.h\"\n" + program->text(kName));
  ZC_RETURN_IF_ERROR(function.status());
  return std::unique_ptr<GpuKernel>(std::make_unique<FusedKernel>(std::move(*program), *function));
}

} // namespace

void addFusedKernels(GpuKernelRegistry &registry) { registry.add("fused", prepareFused); }

} // namespace zc::cuda
