#include "runtime/cuda/Library.h"

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

Library nvrtcLibrary(std::string *missing) {
  Library nvrtc({"libnvrtc.so.13", "libnvrtc.so.12"}, "nvidia-cuda-nvrtc");
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
