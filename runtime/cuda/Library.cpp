#include "runtime/cuda/Library.h"
#include "runtime/cuda/Nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace zc::cuda {

/// Where a library may lie; "" is the loader's own search.
static std::vector<std::string> folders() {
  std::vector<std::string> found = {""};
  auto add = [&](std::string folder) { found.push_back(folder + "/"); };
  if (const char *listed = std::getenv("ZERO_CUDA_LIBRARIES"))
    for (std::string rest = listed; !rest.empty();) {
      size_t end = rest.find(':');
      if (end != 0)
        add(rest.substr(0, end));
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache)
    add(std::string(cache) + "/zero-compile/cuda/lib");
  else if (home)
    add(std::string(home) + "/.cache/zero-compile/cuda/lib");
  add("/usr/local/cuda/lib64");
  return found;
}

Library::Library(std::vector<std::string> names, const char *package) : package(package) {
  for (const std::string &name : names)
    for (const std::string &folder : folders())
      if (!handle && (handle = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL))) {
        link_map *map = nullptr;
        found = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name;
      }
  if (!handle)
    state = makeError(Code::unsupported, 630, "\"" + names.front() + "\" cannot be loaded", {},
                      std::string("it is in NVIDIA's toolkit and in the package ") + package +
                          ": see tools/setup.sh --cuda, or name its folder in ZERO_CUDA_LIBRARIES");
}

void *Library::symbol(const char *name) {
  void *symbol = handle ? ::dlsym(handle, name) : nullptr;
  if (handle && !symbol && state.ok())
    state = makeError(Code::unsupported, 631, "\"" + found + "\" has no function \"" + name + "\"", {},
                      std::string("another version of ") + package + " is needed");
  return symbol;
}

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
