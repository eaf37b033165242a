#include "base/OpenFiles.h"

#include <algorithm>
#include <filesystem>
#include <sys/resource.h>

namespace zc {

uint64_t openFilesLeft() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  std::error_code failure;
  std::filesystem::directory_iterator entry("/proc/self/fd", failure), end;
  if (failure)
    return failure == std::errc::too_many_files_open ? 0 : UINT64_MAX; // who has no /proc cannot be told
  uint64_t open = 0;                                                   // and this listing, which is not counted
  for (; !failure && entry != end; entry.increment(failure))
    ++open;
  return uint64_t(limit.rlim_cur) - std::min<uint64_t>(open - 1, limit.rlim_cur);
}

} // namespace zc
