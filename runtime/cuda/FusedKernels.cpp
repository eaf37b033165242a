#include "runtime/cuda/FusedKernels.h"
#include "base/Workers.h"
#include "kernels/cuda/FusedSource.h"
#include "kernels/cuda/Workspace.h"
#include "kernels/shapes/Windows.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Errors.h"
#include "runtime/cuda/Nvrtc.h"

#include <limits>
#include <map>
#include <mutex>
#include <set>

namespace zc::cuda {

namespace {

constexpr const char *kName = "fused", *kSums = "batch_norm_grad_sums";

/// Of the current GPU.
struct Capability {
  int ordinal = 0, major = 0, minor = 0;

  static Result<Capability> ask() {
    Capability found;
    ZC_CUDA(cudaGetDevice(&found.ordinal), "ask for the GPU");
    ZC_CUDA(cudaDeviceGetAttribute(&found.major, cudaDevAttrComputeCapabilityMajor, found.ordinal), "ask for the GPU");
    ZC_CUDA(cudaDeviceGetAttribute(&found.minor, cudaDevAttrComputeCapabilityMinor, found.ordinal), "ask for the GPU");
    return found;
  }
};

/// Kernels by source and GPU. Their code stays as long as the process: there are as many as a model has kinds of
/// chains.
class Code {
public:
  /// Compiles those that are new, on threads.
  void compile(const std::set<std::string> &sources, const Capability &gpu, int threads) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<const std::string *> wanted;
    for (const std::string &source : sources)
      if (codeOf(source, gpu).empty())
        wanted.push_back(&source);
    std::vector<std::string> made(wanted.size());
    (void)forEachOf(wanted.size(), threads, [&](int, size_t i) -> Status {
      if (Result<std::string> compiled = compileForGpu(*wanted[i], gpu.major, gpu.minor))
        made[i] = std::move(*compiled);
      return {}; // what is refused is refused, and told, when its kernel is prepared
    });
    for (size_t i = 0; i < wanted.size(); ++i)
      codeOf(*wanted[i], gpu) = std::move(made[i]);
  }

  Result<CUfunction> get(const std::string &source) {
    Result<Capability> gpu = Capability::ask();
    ZC_RETURN_IF_ERROR(gpu.status());
    std::lock_guard<std::mutex> lock(
        mutex); // ranks of one process prepare the same plan: one compiles, the others wait
    CUfunction &function = functions[{source, gpu->ordinal}];
    if (function)
      return function;
    std::string &machineCode = codeOf(source, *gpu);
    if (machineCode.empty()) {
      Result<std::string> compiled = compileForGpu(source, gpu->major, gpu->minor);
      ZC_RETURN_IF_ERROR(compiled.status());
      machineCode = std::move(*compiled);
    }
    const Driver &driver = Driver::instance();
    CUmodule module = nullptr;
    CUresult status = driver.loadModule ? driver.loadModule(&module, machineCode.data()) : CUDA_ERROR_NOT_FOUND;
    if (status == CUDA_SUCCESS)
      status = driver.getFunction(&function, module, kName);
    ZC_CUDA(static_cast<cudaError_t>(status), "load a compiled kernel"); // numbers are the runtime's
    return function;
  }

private:
  /// Empty: not compiled.
  std::string &codeOf(const std::string &source, const Capability &gpu) {
    return codes[{source, 10 * gpu.major + gpu.minor}];
  }

  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::string> codes; ///< by source and compute capability
  std::map<std::pair<std::string, int>, CUfunction> functions;
};

Code &sharedCode() {
  static Code code;
  return code;
}

Status launched(CUfunction function, int64_t blocks, unsigned threads, void **parameters, cudaStream_t stream,
                const char *kernel) {
  if (blocks == 0) // which CUDA refuses
    return {};
  const CUresult status = Driver::instance().launch(function, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1, 0,
                                                    stream, parameters, nullptr);
  ZC_CUDA(static_cast<cudaError_t>(status), "launch kernel '" + std::string(kernel) + "'");
  return {};
}

Status checkGrid(int64_t blocks, const char *kernel) {
  if (blocks > std::numeric_limits<int32_t>::max())
    return makeError(zc::Code::unsupported, 648,
                     "kernel '" + std::string(kernel) + "' has more elements than a grid takes");
  return {};
}

class FusedKernel : public GpuKernel {
public:
  FusedKernel(FusedSource program, CUfunction function) : program(std::move(program)), function(function) {}
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override {
    FusedArguments arguments = program.arguments(operands);
    void *parameters[] = {&arguments};
    return launched(function, program.blocks(), kElementThreads, parameters, stream, kName);
  }

private:
  FusedSource program;
  CUfunction function;
};

/// Sums of a gradient that a program computes; operands are the step's.
class ProgramSumsKernel : public GpuKernel {
public:
  ProgramSumsKernel(FusedSource program, CUfunction function, const ProgrammedSpec &seen,
                    const shapes::BatchNormShape &shape)
      : program(std::move(program)), function(function), firstOwn(seen.place(0)),
        workspaceAt(seen.place(seen.spec.operands.size())), dtype(shape.dtype), epsilon(shape.epsilon),
        cut{shape.batch * shape.inner, shape.channels, channelParts(shape), nullptr} {}
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override {
    void *const *own = operands + firstOwn;
    FusedArguments arguments = program.arguments(operands);
    const int64_t pack = program.channelsAtOnce(arguments, dtype, own[1], cut.channels);
    GradSumsArguments sums{
        own[1], static_cast<const float *>(own[3]), static_cast<const float *>(own[4]), epsilon, cut, pack > 1};
    sums.cut.partial = static_cast<double *>(operands[workspaceAt]);
    void *parameters[] = {&arguments, &sums};
    return launched(function, cut.blocks(pack), kColumnThreads, parameters, stream, kSums);
  }
  int64_t mostBlocks() const { return cut.blocks(1); }

private:
  FusedSource program;
  CUfunction function;
  size_t firstOwn, workspaceAt;
  DType dtype;
  double epsilon;
  ColumnCut cut;
};

std::string textOf(const FusedSource &program) {
  return "#include \"kernels/cuda/FusedKernel.h\"\n" + program.text(kName);
}
std::string textOfSums(const FusedSource &program) {
  return "#include \"kernels/cuda/ChannelSums.h\"\n" + program.text(kName);
}

/// What is compiled for a kernel; empty: nothing, or it is refused.
std::string sourceFor(const KernelSpec &spec) {
  if (spec.name == kName) {
    Result<FusedSource> program = FusedSource::of(spec);
    return program ? textOf(*program) : std::string();
  }
  if (spec.name != kSums)
    return {};
  Result<ProgrammedSpec> seen = throughProgram(spec);
  if (!seen || !seen->prologue)
    return {};
  Result<FusedSource> program = FusedSource::ofSums(*seen->prologue);
  return program ? textOfSums(*program) : std::string();
}

Result<std::unique_ptr<GpuKernel>> prepareFused(const KernelSpec &spec) {
  Result<FusedSource> program = FusedSource::of(spec);
  ZC_RETURN_IF_ERROR(program.status());
  ZC_RETURN_IF_ERROR(checkGrid(program->blocks(), kName));
  Result<CUfunction> function = sharedCode().get(textOf(*program));
  ZC_RETURN_IF_ERROR(function.status());
  return std::unique_ptr<GpuKernel>(std::make_unique<FusedKernel>(std::move(*program), *function));
}

} // namespace

Result<std::unique_ptr<GpuKernel>> prepareProgramSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<shapes::BatchNormShape> shape = shapes::readBatchNormGradSums(seen->spec);
  ZC_RETURN_IF_ERROR(shape.status());
  Result<FusedSource> program = FusedSource::ofSums(*seen->prologue);
  ZC_RETURN_IF_ERROR(program.status());
  Result<CUfunction> function = sharedCode().get(textOfSums(*program));
  ZC_RETURN_IF_ERROR(function.status());
  auto kernel = std::make_unique<ProgramSumsKernel>(std::move(*program), *function, *seen, *shape);
  ZC_RETURN_IF_ERROR(checkGrid(kernel->mostBlocks(), kSums));
  return std::unique_ptr<GpuKernel>(std::move(kernel));
}

void addFusedKernels(GpuKernelRegistry &registry) { registry.add("fused", prepareFused); }

void compileFused(const std::vector<KernelSpec> &specs, int threads) {
  std::set<std::string> sources;
  for (const KernelSpec &spec : specs)
    if (std::string source = sourceFor(spec); !source.empty())
      sources.insert(std::move(source));
  if (Result<Capability> gpu = Capability::ask(); gpu && sources.size() > 1)
    sharedCode().compile(sources, *gpu, threads);
}

} // namespace zc::cuda
