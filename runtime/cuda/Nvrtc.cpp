#include "runtime/cuda/Nvrtc.h"
#include "kernels/cuda/FusedSource.h"
#include "runtime/cuda/Library.h"

#include <nvrtc.h>

#include <memory>

namespace zc::cuda {

namespace {

/// The functions that are used, by their own declarations.
struct Nvrtc {
  Library library = nvrtcLibrary();
  decltype(&nvrtcCreateProgram) createProgram;
  decltype(&nvrtcDestroyProgram) destroyProgram;
  decltype(&nvrtcCompileProgram) compileProgram;
  decltype(&nvrtcGetProgramLogSize) logSize;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubinSize;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetErrorString) errorString;

  Nvrtc() {
    library.take(createProgram, "nvrtcCreateProgram");
    library.take(destroyProgram, "nvrtcDestroyProgram");
    library.take(compileProgram, "nvrtcCompileProgram");
    library.take(logSize, "nvrtcGetProgramLogSize");
    library.take(log, "nvrtcGetProgramLog");
    library.take(cubinSize, "nvrtcGetCUBINSize");
    library.take(cubin, "nvrtcGetCUBIN");
    library.take(errorString, "nvrtcGetErrorString");
  }
  static const Nvrtc &instance() {
    static const Nvrtc nvrtc;
    return nvrtc;
  }
};

class Program {
public:
  explicit Program(const std::string &source) {
    std::vector<const char *> names, texts;
    for (const FusedHeader &header : fusedHeaders()) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    status = nvrtc.createProgram(&program, source.c_str(), "fused.cu", static_cast<int>(names.size()), texts.data(),
                                 names.data());
  }
  ~Program() {
    if (program)
      nvrtc.destroyProgram(&program);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// Errors: what NVRTC says.
  Result<std::string> compile(const std::string &architecture) {
    const char *options[] = {architecture.c_str(), "--std=c++17", "--fmad=false",
                             "--device-as-default-execution-space"};
    if (status == NVRTC_SUCCESS)
      status = nvrtc.compileProgram(program, 4, options);
    if (status == NVRTC_ERROR_INVALID_OPTION)
      return makeError(Code::unsupported, 645,
                       "\"" + nvrtc.library.path() + "\" does not know the GPU: " + architecture, {},
                       "a newer nvidia-cuda-nvrtc is needed");
    std::string code;
    size_t bytes = 0;
    if (status == NVRTC_SUCCESS)
      status = nvrtc.cubinSize(program, &bytes);
    if (status == NVRTC_SUCCESS) {
      code.resize(bytes);
      status = nvrtc.cubin(program, code.data());
    }
    if (status != NVRTC_SUCCESS)
      return makeError(Code::internal, 646,
                       std::string("NVRTC refuses a kernel: ") + nvrtc.errorString(status) + said());
    return code;
  }

private:
  std::string said() const {
    size_t bytes = 0;
    if (!program || nvrtc.logSize(program, &bytes) != NVRTC_SUCCESS || bytes < 2)
      return {};
    std::string text(bytes, '\0');
    nvrtc.log(program, text.data());
    return "\n" + text.substr(0, text.find('\0'));
  }

  const Nvrtc &nvrtc = Nvrtc::instance();
  nvrtcProgram program = nullptr;
  nvrtcResult status;
};

} // namespace

Result<std::string> compileForGpu(const std::string &source, int major, int minor) {
  ZC_RETURN_IF_ERROR(Status(Nvrtc::instance().library.status()));
  return Program(source).compile("--gpu-architecture=sm_" + std::to_string(10 * major + minor));
}

} // namespace zc::cuda
