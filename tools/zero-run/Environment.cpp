#include "tools/zero-run/Environment.h"

#include <cstdlib>
#include <cstring>

namespace zc::run {

namespace {
struct Launcher {
  const char *rank, *size;
  bool inherited; ///< also set where the process is no rank of this launcher
};
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
                                   {"PMI_RANK", "PMI_SIZE", false},
                                   {"SLURM_PROCID", "SLURM_NTASKS", true},
                                   {"RANK", "WORLD_SIZE", false}};

std::optional<int> numberIn(const char *text) {
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (end == text || *end != 0 || value < 0 || value > 1 << 20)
    return std::nullopt;
  return int(value);
}

std::string setting(const char *name) { return std::string(name) + "=" + std::getenv(name); }

/// Half of a pair leaves open which rank this is, unless it is a number of one rank, or none at all.
Status checkHalf(const char *has, const char *lacks, bool isSize) {
  const std::optional<int> number = numberIn(std::getenv(has));
  if (!number || (isSize && *number == 1))
    return Status::success();
  return makeError(Code::usage, 968,
                   "the environment says " + setting(has) + " but no " + lacks +
                       ": which rank of a job this process is stays open",
                   "", "set both, or none; with -n N or --comm inproc the ranks are threads of this process");
}

Result<std::optional<LaunchedRank>> read(const Launcher &launcher, bool asThreads) {
  const char *rank = std::getenv(launcher.rank), *size = std::getenv(launcher.size);
  if (!rank != !size && !launcher.inherited && !asThreads)
    ZC_RETURN_IF_ERROR(checkHalf(rank ? launcher.rank : launcher.size, rank ? launcher.size : launcher.rank, !rank));
  if (!rank || !size)
    return std::optional<LaunchedRank>();
  std::optional<int> r = numberIn(rank), n = numberIn(size);
  if (!r || !n || *r >= *n)
    return makeError(Code::usage, 970,
                     "the environment says " + setting(launcher.rank) + " and " + setting(launcher.size) +
                         ", which is no rank of a job");
  return std::optional<LaunchedRank>({launcher.size, *r, *n});
}
} // namespace

Result<std::optional<LaunchedRank>> launchedRank(bool asThreads) {
  std::optional<LaunchedRank> found;
  const Launcher *by = nullptr;
  for (const Launcher &launcher : kLaunchers) {
    if (by && launcher.inherited)
      continue;
    auto mine = read(launcher, asThreads);
    if (!mine)
      return mine;
    if (!*mine)
      continue;
    if (!found) {
      found = *mine;
      by = &launcher;
    } else if (found->rank != (*mine)->rank || found->size != (*mine)->size) {
      return makeError(Code::usage, 971,
                       "the environment disagrees about this process: " + setting(by->rank) + " and " +
                           setting(by->size) + ", but " + setting(launcher.rank) + " and " + setting(launcher.size),
                       "", "unset the variables that are not of the launcher in use");
    }
  }
  return found;
}

bool isLaterRank() {
  for (const Launcher &launcher : kLaunchers)
    if (const char *rank = std::getenv(launcher.rank); rank && std::getenv(launcher.size))
      return std::strcmp(rank, "0") != 0;
  return false;
}

} // namespace zc::run
