#include "runtime/base/Memory.h"

#include <fstream>
#include <unistd.h>

namespace zc {

namespace {

/// Lowers `limit` to the number in `file`; a file that is not there or says "max" sets none.
void lowerTo(MemoryLimit &limit, const std::string &file) {
  std::ifstream in(file);
  uint64_t bytes = 0;
  if (in >> bytes && bytes > 0 && bytes < limit.bytes)
    limit = {bytes, true};
}

/// The limits of the group at `path` and of those around it. In a container's namespace the path may not lead anywhere
/// from the mount, whose top then is the container's group.
void lowerToGroups(MemoryLimit &limit, const std::string &mount, std::string path, const std::string &file) {
  for (;;) {
    lowerTo(limit, mount + path + "/" + file);
    size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos)
      return;
    path.resize(slash);
  }
}

/// Is "memory" one of the controllers in a list with commas?
bool controlsMemory(const std::string &controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

} // namespace

MemoryLimit memoryLimit(const std::string &root) {
  MemoryLimit limit{static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)),
                    false};
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup"); // lines of "number:controllers:path"; version 2 has no controllers
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty())
      lowerToGroups(limit, mount, path, "memory.max");
    else if (controlsMemory(controllers))
      lowerToGroups(limit, mount + "/memory", path, "memory.limit_in_bytes");
  }
  return limit;
}

} // namespace zc
