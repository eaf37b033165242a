#include "runtime/mpi/Mpi.h"

#include <climits>
#include <dlfcn.h>
#include <unistd.h>

namespace zc {

/// Beside the program, or where an installation puts it.
static std::string candidate(int index) {
  char self[PATH_MAX];
  ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  std::string path(self, length > 0 ? size_t(length) : 0);
  path = path.substr(0, path.rfind('/') + 1);
  return path + (index == 0 ? "libzc_mpi.so" : "../lib/zero-compile/libzc_mpi.so");
}

static Result<MpiConnect> load() {
  std::string path, why;
  for (int i = 0; i < 2; ++i) {
    path = candidate(i);
    if (::access(path.c_str(), R_OK) != 0)
      continue;
    // Global: Open MPI's own modules look for the library's symbols there.
    if (void *object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
      if (void *symbol = ::dlsym(object, "zcMpiConnect"))
        return reinterpret_cast<MpiConnect>(symbol);
    const char *said = ::dlerror();
    return makeError(Code::unsupported, 610, "MPI cannot be loaded", path, said ? said : "");
  }
  return makeError(Code::unsupported, 611, "this build has no MPI: there is no \"libzc_mpi.so\" beside the program", "",
                   "install libopenmpi-dev and build again, or give -n to run all ranks in one process");
}

std::optional<std::string> mpiProblem() {
  Result<MpiConnect> loaded = load();
  if (loaded)
    return std::nullopt;
  return loaded.error().message + (loaded.error().help.empty() ? "" : ": " + loaded.error().help);
}

Result<std::unique_ptr<RankGroup>> connectMpi(const MpiOptions &options) {
  Result<MpiConnect> connect = load();
  if (!connect)
    return connect.error();
  Error error;
  if (RankGroup *group = (*connect)(options, error))
    return std::unique_ptr<RankGroup>(group);
  return error;
}

} // namespace zc
