#include "runtime/cuda/Library.h"
#include "runtime/cuda/Nccl.h"

namespace zc::cuda {

static std::string describe(const Library &library, size_t version, size_t major, size_t minor) {
  if (!library.status().ok())
    return library.status().error().message + ": " + library.status().error().help;
  std::string text = std::to_string(version / major) + "." + std::to_string(version % major / minor) + "." +
                     std::to_string(version % minor);
  return text + ", " + library.path();
}

std::vector<std::pair<std::string, std::string>> describeLibraries() {
  std::vector<std::pair<std::string, std::string>> lines;
  auto ask = [&](const char *title, Library library, const char *function, size_t major, size_t minor, bool isNccl) {
    size_t version = 0;
    if (isNccl) {
      int (*get)(int *) = nullptr;
      library.take(get, function);
      int number = 0;
      if (get && get(&number) == 0)
        version = static_cast<size_t>(number);
    } else {
      size_t (*get)() = nullptr;
      library.take(get, function);
      version = get ? get() : 0;
    }
    lines.emplace_back(title, describe(library, version, major, minor));
  };
  ask("cuBLASLt", Library({"libcublasLt.so.13", "libcublasLt.so.12"}, "nvidia-cublas"), "cublasLtGetVersion", 10000,
      100, false);
  ask("cuDNN", Library({"libcudnn.so.9"}, "nvidia-cudnn-cu13"), "cudnnGetVersion", 10000, 100, false);
  ask("NCCL", Library({"libnccl.so.2"}, "nvidia-nccl-cu13"), "ncclGetVersion", 10000, 100, true);
  // Before a job of hundreds of processes finds it out.
  if (const Status &nccl = ncclStatus(); !nccl.ok() && nccl.error().number == 631)
    lines.back().second += "; " + nccl.error().message + ": " + nccl.error().help;
  return lines;
}

} // namespace zc::cuda
