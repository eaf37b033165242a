//===- HostMemory.h - memory of the host that GPUs copy from and to ------------------------===//
//
// Of all ranks of the process: they read each other's. What could not be pinned no kernel reaches, and copies read it
// when they are called, not when their turn comes: whoever enqueues asks here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>

namespace zc::cuda {

class HostMemory {
public:
  static HostMemory &instance();

  void add(const void *memory, uint64_t bytes, bool isPinned);
  void remove(const void *memory);
  /// Is it in memory that was added, and not pinned?
  bool isUnpinned(const void *address) const;
  /// Is it in memory that was added?
  bool has(const void *address) const;

private:
  struct Range {
    uint64_t bytes;
    bool isPinned;
  };
  const Range *find(const void *address) const;

  mutable std::shared_mutex mutex;
  std::map<uintptr_t, Range> ranges; ///< by where they begin
  std::atomic<int> unpinned{0};      ///< ranges that are not, mostly none
};

} // namespace zc::cuda
