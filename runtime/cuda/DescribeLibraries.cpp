#include "runtime/cuda/Library.h"
#include "runtime/cuda/Nccl.h"

namespace zc::cuda {

namespace {

std::string dotted(size_t version, size_t major, size_t minor) {
  return std::to_string(version / major) + "." + std::to_string(version % major / minor) + "." +
         std::to_string(version % minor);
}

/// What the library's function, a `Function`, says through `version`, or what is missing.
template <typename Function, typename Version>
std::string describe(Library library, const char *function, const Version &version) {
  Function get = nullptr;
  library.take(get, function);
  if (!library.status().ok())
    return library.status().error().message + ": " + library.status().error().help;
  return version(get) + ", " + library.path();
}

std::string ofNumber(size_t (*get)()) { return dotted(get(), 10000, 100); }
std::string ofNccl(int (*get)(int *)) {
  int number = 0;
  (void)get(&number);
  return dotted(static_cast<size_t>(number), 10000, 100);
}
std::string ofNvrtc(int (*get)(int *, int *)) {
  int major = 0, minor = 0;
  (void)get(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

} // namespace

std::vector<std::pair<std::string, std::string>> describeLibraries() {
  using Number = size_t (*)();
  std::string builtins;
  Library nvrtc = nvrtcLibrary(&builtins);
  std::vector<std::pair<std::string, std::string>> lines = {
      {"cuBLASLt", describe<Number>(cublasLtLibrary(), "cublasLtGetVersion", ofNumber)},
      {"cuDNN", describe<Number>(cudnnLibrary(), "cudnnGetVersion", ofNumber)},
      {"NVRTC", describe<int (*)(int *, int *)>(std::move(nvrtc), "nvrtcVersion", ofNvrtc) +
                    (builtins.empty() ? "" : "; \"" + builtins + "\" is not beside it: it cannot compile")},
      {"NCCL", describe<int (*)(int *)>(ncclLibrary(), "ncclGetVersion", ofNccl)}};
  // Before a job of hundreds of processes finds it out.
  if (const Status &nccl = ncclStatus(); !nccl.ok() && nccl.error().number == 631)
    lines.back().second += "; " + nccl.error().message + ": " + nccl.error().help;
  return lines;
}

} // namespace zc::cuda
