#include "base/Plugin.h"

#include <climits>
#include <dlfcn.h>
#include <unistd.h>

namespace zc {

Plugin loadPlugin(const std::string &file, const char *symbol, bool isGlobal) {
  char self[PATH_MAX];
  ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  std::string program(self, length > 0 ? size_t(length) : 0), folder = program.substr(0, program.rfind('/') + 1);
  Plugin plugin;
  for (const char *place : {"", "../lib/zero-compile/"}) {
    std::string path = folder + place + file;
    if (::access(path.c_str(), R_OK) != 0)
      continue;
    plugin.path = path;
    if (void *object = ::dlopen(path.c_str(), RTLD_NOW | (isGlobal ? RTLD_GLOBAL : RTLD_LOCAL)))
      plugin.symbol = ::dlsym(object, symbol);
    if (const char *said = plugin.symbol ? nullptr : ::dlerror())
      plugin.why = said;
    break;
  }
  return plugin;
}

} // namespace zc
