#include "base/Working.h"

#include "base/Clock.h"
#include "base/Living.h"

#include <utility>

namespace zc {

Working::Working(int rank, std::function<std::string(uint32_t)> name) : rank(rank), name(std::move(name)) {
  Living<Working>::add(this);
}

Working::~Working() { Living<Working>::remove(this); }

std::vector<BlockedThread> workingThreads(int64_t ns) {
  std::vector<BlockedThread> found;
  int64_t now = nanoseconds();
  auto lock = Living<Working>::lock();
  for (Working *each : Living<Working>::all()) {
    uint64_t sign = each->sign.load(std::memory_order_relaxed);
    each->seen.look(sign, now);
    if (sign != 0 && now - each->seen.since() > ns)
      found.push_back({each->rank, each->step.load(std::memory_order_relaxed), each->seen.since(),
                       each->name(uint32_t(sign & 0xffffffffu) - 1)});
  }
  return found;
}

} // namespace zc
