#include "runtime/cuda/Library.h"

#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>

namespace zc::cuda {

namespace {

/// Those that somebody named.
std::vector<std::string> namedFolders() {
  std::vector<std::string> found;
  if (const char *listed = std::getenv("ZERO_CUDA_LIBRARIES"))
    for (std::string rest = listed; !rest.empty();) {
      size_t end = rest.find(':');
      if (end != 0)
        found.push_back(rest.substr(0, end) + "/");
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
  return found;
}

/// Where a library lies by itself; "" is the loader's own search.
std::vector<std::string> usualFolders() {
  std::vector<std::string> found = {""};
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache)
    found.push_back(std::string(cache) + "/zero-compile/cuda/lib/");
  else if (home)
    found.push_back(std::string(home) + "/.cache/zero-compile/cuda/lib/");
  found.push_back("/usr/local/cuda/lib64/");
  return found;
}

/// Any version in a folder that somebody named comes before the newest one elsewhere.
std::vector<std::string> candidates(const std::vector<std::string> &names) {
  std::vector<std::string> paths;
  for (const std::string &folder : namedFolders())
    for (const std::string &name : names)
      paths.push_back(folder + name);
  for (const std::string &name : names)
    for (const std::string &folder : usualFolders())
      paths.push_back(folder + name);
  return paths;
}

} // namespace

Library::Library(std::vector<std::string> names, const char *package) : package(package) {
  for (const std::string &path : candidates(names))
    if ((handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))) {
      link_map *map = nullptr;
      found = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : path;
      return;
    }
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

/// `stem`: "libnvrtc.so.".
static Library ofCuda(const std::string &stem, const char *package) {
  return {{stem + std::to_string(CUDART_VERSION / 1000), stem + "13", stem + "12"}, package};
}

Library cudaRuntimeLibrary() { return ofCuda("libcudart.so.", "nvidia-cuda-runtime"); }
Library cublasLtLibrary() { return ofCuda("libcublasLt.so.", "nvidia-cublas"); }
Library cudnnLibrary() { return {{"libcudnn.so.9"}, "nvidia-cudnn-cu13"}; }
Library ncclLibrary() { return {{"libnccl.so.2"}, "nvidia-nccl-cu13"}; }

Library nvrtcLibrary(std::string *missing) {
  // A driver takes machine code of its own CUDA's compilers and older ones.
  Library nvrtc = ofCuda("libnvrtc.so.", "nvidia-cuda-nvrtc");
  int (*version)(int *, int *) = nullptr;
  int major = 0, minor = 0;
  nvrtc.take(version, "nvrtcVersion");
  if (!version || version(&major, &minor) != 0)
    return nvrtc;
  const std::string name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
  const std::string folder = nvrtc.path().substr(0, nvrtc.path().rfind('/') + 1);
  if (!::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL) && !::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) &&
      missing)
    *missing = name;
  return nvrtc;
}

} // namespace zc::cuda
