#include "runtime/cuda/HostMemory.h"

#include <mutex>

namespace zc::cuda {

HostMemory &HostMemory::instance() {
  static HostMemory all;
  return all;
}

void HostMemory::add(const void *memory, uint64_t bytes, bool isPinned) {
  std::lock_guard<std::shared_mutex> lock(mutex);
  ranges[reinterpret_cast<uintptr_t>(memory)] = {bytes, isPinned};
  unpinned += !isPinned;
}

void HostMemory::remove(const void *memory) {
  std::lock_guard<std::shared_mutex> lock(mutex);
  auto found = ranges.find(reinterpret_cast<uintptr_t>(memory));
  if (found == ranges.end())
    return;
  unpinned -= !found->second.isPinned;
  ranges.erase(found);
}

const HostMemory::Range *HostMemory::find(const void *address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin())
    return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &next->second : nullptr;
}

bool HostMemory::isUnpinned(const void *address) const {
  if (unpinned == 0)
    return false;
  std::shared_lock<std::shared_mutex> lock(mutex);
  const Range *range = find(address);
  return range && !range->isPinned;
}

bool HostMemory::has(const void *address) const {
  std::shared_lock<std::shared_mutex> lock(mutex);
  return find(address) != nullptr;
}

} // namespace zc::cuda
