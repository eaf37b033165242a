//===- Memory.h - how much memory this process may use --------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace zc {

struct MemoryLimit {
  uint64_t bytes = 0;
  bool isOfGroup = false; ///< a control group's (container, batch job), which is less than the machine has
};

/// The machine's memory, or the limit of a control group that this process is in where that is less. Control groups of
/// either version, mounted at /sys/fs/cgroup. `root` stands for "/", for tests.
MemoryLimit memoryLimit(const std::string &root = "");

} // namespace zc
