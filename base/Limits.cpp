#include "base/Limits.h"

#include "base/Failpoint.h"
#include "base/Size.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace zc {

namespace {

/// Calls `version1` or `version2` with the folder of each group that this process is in and that has `controller`, and
/// of those around it. In a container's namespace the path may not lead anywhere from the mount, whose top then is the
/// container's group.
using Visit = std::function<void(const std::string &folder)>;
void forGroups(const std::string &root, const std::string &controller, const Visit &version1, const Visit &version2) {
  auto upwards = [](const std::string &mount, std::string path, const Visit &visit) {
    for (;;) {
      visit(mount + path + "/");
      size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos)
        return;
      path.resize(slash);
    }
  };
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup"); // lines of "number:controllers:path"; version 2 has no controllers
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty())
      upwards(mount, path, version2);
    else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos)
      upwards(mount + "/" + controller, path, version1);
  }
}

/// The number that `file` begins with, after which the stream goes on; 0 for "max" or where there is no such file.
int64_t numberIn(std::ifstream &file) {
  int64_t number = 0;
  return file >> number ? number : 0;
}
int64_t numberIn(const std::string &path) {
  std::ifstream file(path);
  return numberIn(file);
}

} // namespace

MemoryLimit memoryLimit(const std::string &root) {
  MemoryLimit limit{static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)),
                    false};
  auto lowerTo = [&](int64_t bytes) {
    if (bytes > 0 && static_cast<uint64_t>(bytes) < limit.bytes)
      limit = {static_cast<uint64_t>(bytes), true};
  };
  forGroups(
      root, "memory", [&](const std::string &folder) { lowerTo(numberIn(folder + "memory.limit_in_bytes")); },
      [&](const std::string &folder) { lowerTo(numberIn(folder + "memory.max")); });
  return limit;
}

/// The number after `key` in a file of lines "key number".
static int64_t numberOf(const std::string &path, const std::string &key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, key.size(), key) == 0)
      return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  return 0;
}

MemoryLimit memoryAvailable(const std::string &root) {
  MemoryLimit available = memoryLimit(root);
  available.isOfGroup = false;
  if (int64_t free = numberOf(root + "/proc/meminfo", "MemAvailable:"); free > 0)
    available.bytes = std::min(available.bytes, static_cast<uint64_t>(free) * 1024);
  auto lowerTo = [&](int64_t allowed, int64_t used, int64_t cached) {
    uint64_t left = static_cast<uint64_t>(std::max<int64_t>(0, allowed - std::max<int64_t>(0, used - cached)));
    if (allowed > 0 && left < available.bytes)
      available = {left, true};
  };
  forGroups(
      root, "memory",
      [&](const std::string &folder) {
        lowerTo(numberIn(folder + "memory.limit_in_bytes"), numberIn(folder + "memory.usage_in_bytes"),
                numberOf(folder + "memory.stat", "total_inactive_file "));
      },
      [&](const std::string &folder) {
        lowerTo(numberIn(folder + "memory.max"), numberIn(folder + "memory.current"),
                numberOf(folder + "memory.stat", "inactive_file "));
      });
  return available;
}

uint64_t oomKills(const std::string &root) {
  std::optional<int64_t> kills;
  auto read = [&](const std::string &file) {
    if (!kills && std::ifstream(file)) // the innermost that says
      kills = numberOf(file, "oom_kill ");
  };
  forGroups(
      root, "memory", [&](const std::string &folder) { read(folder + "memory.oom_control"); },
      [&](const std::string &folder) { read(folder + "memory.events"); });
  if (!kills)
    kills = numberOf(root + "/proc/vmstat", "oom_kill ");
  return static_cast<uint64_t>(*kills) + (failpoint("memory.events") ? 1 : 0);
}

/// Bytes of addresses that the process has.
static uint64_t addressSpace() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string memoryText() {
  std::string text = showSize(memoryAvailable().bytes) + " of memory can be had now";
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += "; ulimit -v is " + showSize(limit.rlim_cur) + ", of which " + showSize(addressSpace()) + " are taken";
  return text;
}

bool canMap(uint64_t bytes) {
  if (bytes == 0)
    return true;
  void *tried = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return tried != MAP_FAILED && ::munmap(tried, bytes) == 0;
}

void raiseOpenFiles() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit); // else there are as many as before
  }
}

CpuLimit cpuLimit(const std::string &root) {
  CpuLimit limit;
  cpu_set_t set; // of the first 1024; machines with more have the whole mask refused
  limit.cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                              : static_cast<int>(std::thread::hardware_concurrency());
  limit.cores = std::max(1, limit.cores);
  limit.isBound = limit.cores < ::sysconf(_SC_NPROCESSORS_ONLN);
  auto lowerTo = [&](int64_t quota, int64_t period) {
    if (quota > 0 && period > 0)
      limit.quota = std::min(limit.quota, static_cast<double>(quota) / static_cast<double>(period));
  };
  forGroups(
      root, "cpu",
      [&](const std::string &folder) {
        lowerTo(numberIn(folder + "cpu.cfs_quota_us"), numberIn(folder + "cpu.cfs_period_us"));
      },
      [&](const std::string &folder) {
        std::ifstream both(folder + "cpu.max"); // "200000 100000" or "max 100000"
        int64_t quota = numberIn(both);
        lowerTo(quota, numberIn(both));
      });
  return limit;
}

int threadsPerRank(const CpuLimit &limit, int ranksHere, int ranksOnMachine) {
  double own = static_cast<double>(limit.cores) / (limit.isBound ? ranksHere : ranksOnMachine);
  // Rounded down: with a thread more than the quota feeds, all of them would stand still part of the time.
  return std::max(1, static_cast<int>(std::min(own, limit.quota / ranksOnMachine)));
}

} // namespace zc
