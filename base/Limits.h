//===- Limits.h - how much memory and processor this process may use -------------===//
//
// What the machine has, or the control groups (containers, batch jobs) that the process is in allow where that is less:
// groups of either version, mounted at /sys/fs/cgroup, each with all those around it. `root` stands for "/", for tests.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace zc {

struct MemoryLimit {
  uint64_t bytes = 0;
  bool isOfGroup = false; ///< a control group's, which is less than the machine has
};
MemoryLimit memoryLimit(const std::string &root = "");
/// What of it can be had now: MemAvailable, or what a group allows less what it uses (files that are only cached count
/// as free).
MemoryLimit memoryAvailable(const std::string &root = "");

/// The same for people: what can be had, and what ulimit -v leaves of it, where it is set.
std::string memoryText();

/// Whether so many bytes of addresses more can be mapped (ulimit -v), of which none need be memory.
bool canMap(uint64_t bytes);

/// How many processes the system has killed for want of memory so far: in the control group that this process is in
/// (memory.events, memory.oom_control), or on the machine where there is none.
uint64_t oomKills(const std::string &root = "");

/// As many files may be open from now on as the system lets this process ask for.
void raiseOpenFiles();

struct CpuLimit {
  int cores = 1;        ///< that the affinity mask lets this process run on
  bool isBound = false; ///< some of the machine's only: they are this process's own
  /// Processors' time, in processors, for all in the group together; infinite without a quota.
  double quota = std::numeric_limits<double>::infinity();
};
CpuLimit cpuLimit(const std::string &root = "");

/// Threads for each of `ranksHere` ranks of this process where `ranksOnMachine` are on this machine, at least 1: cores
/// that are not the process's own, and a quota, are shared with the others.
int threadsPerRank(const CpuLimit &limit, int ranksHere, int ranksOnMachine);

} // namespace zc
