#include "runtime/device/Timeline.h"

#include "base/Futex.h"

namespace zc {

// Sequentially consistent throughout: a waiter announces itself and then reads the value, the advancing thread writes
// the value and then reads who is waiting; one of the two sees the other.

void Timeline::wakeSleepers() {
  if (sleepers.load() == 0)
    return;
  version.fetch_add(1);
  wakeAll(version);
}

void Timeline::advance(uint64_t steps) {
  value->fetch_add(steps);
  wakeSleepers();
}

void Timeline::fail() {
  value->fetch_or(kFailed);
  wakeSleepers();
}

bool Timeline::waitFor(uint64_t target) {
  auto isReached = [&] { return hasReached(target); };
  if (!spinUntil(isReached)) {
    sleepers.fetch_add(1);
    for (;;) {
      uint32_t seen = version.load();
      if (isReached())
        break;
      sleepWhile(version, seen);
    }
    sleepers.fetch_sub(1);
  }
  return !hasFailed();
}

} // namespace zc
