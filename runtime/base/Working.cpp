#include "runtime/base/Working.h"

#include "runtime/base/Clock.h"

#include <mutex>
#include <set>
#include <utility>

namespace zc {

namespace {
struct Table {
  std::mutex mutex;
  std::set<Working *> all;
};
Table &table() {
  static auto *table = new Table(); // threads may outlive static objects
  return *table;
}
} // namespace

Working::Working(int rank, std::function<std::string(uint32_t)> name) : rank(rank), name(std::move(name)) {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().all.insert(this);
}

Working::~Working() {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().all.erase(this);
}

std::vector<BlockedThread> workingThreads(int64_t ns) {
  std::vector<BlockedThread> found;
  int64_t now = nanoseconds();
  std::lock_guard<std::mutex> lock(table().mutex);
  for (Working *each : table().all) {
    uint64_t sign = each->sign.load(std::memory_order_relaxed);
    if (std::exchange(each->seen, sign) != sign)
      each->since = now;
    if (sign != 0 && now - each->since > ns)
      found.push_back({each->rank, each->step.load(std::memory_order_relaxed), each->since,
                       each->name(uint32_t(sign & 0xffffffffu) - 1)});
  }
  return found;
}

} // namespace zc
