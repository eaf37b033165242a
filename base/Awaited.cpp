#include "base/Awaited.h"

#include "base/Clock.h"
#include "base/Living.h"

#include <utility>

namespace zc {

Awaited::Awaited(int rank, std::function<uint64_t()> counted, std::function<std::string()> where)
    : rank(rank), counted(std::move(counted)), where(std::move(where)) {
  Living<Awaited>::add(this);
}

Awaited::~Awaited() { Living<Awaited>::remove(this); }

// Under the lock, as is the counting: what is counted may go once the turn is over.
Awaited::Turn::Turn(Awaited &what) : what(what) {
  auto lock = Living<Awaited>::lock();
  what.isGoing = true;
  what.seen = {what.counted(), nanoseconds()};
}

Awaited::Turn::~Turn() {
  auto lock = Living<Awaited>::lock();
  what.isGoing = false;
}

void lookAtAwaited(std::vector<AwaitedWork> &found) {
  found.clear();
  int64_t now = nanoseconds();
  auto lock = Living<Awaited>::lock();
  for (Awaited *each : Living<Awaited>::all()) {
    if (!each->isGoing)
      continue;
    each->seen.look(each->counted(), now);
    found.push_back({each->rank, each->seen});
  }
}

std::string whereAwaited(int rank) {
  auto lock = Living<Awaited>::lock();
  for (Awaited *each : Living<Awaited>::all())
    if (each->isGoing && each->rank == rank)
      return each->where();
  return {};
}

} // namespace zc
