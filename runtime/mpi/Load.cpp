#include "runtime/mpi/Mpi.h"

#include "base/Plugin.h"

namespace zc {

static Result<MpiConnect> load() {
  // Global: Open MPI's own modules look for the library's symbols there.
  Plugin plugin = loadPlugin("libzc_mpi.so", "zcMpiConnect", /*isGlobal=*/true);
  if (plugin.symbol)
    return reinterpret_cast<MpiConnect>(plugin.symbol);
  if (!plugin.path.empty())
    return makeError(Code::unsupported, 610, "MPI cannot be loaded", plugin.path, plugin.why);
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
