//===- Awaited.h - what others do for a thread ---------------------------------------------------===//
//
// Who handed work to queues waits until they are through. On a GPU a queue calls nothing of ours: that it gets on shows
// by what it counts.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/SeenCount.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace zc {

/// Work that a rank hands out. One thread's, but for the counting.
class Awaited {
public:
  /// `counted()` changes whenever any of the work is done, or handed out; asked from another thread during a Turn.
  Awaited(int rank, std::function<uint64_t()> counted);
  Awaited(const Awaited &) = delete;
  Awaited &operator=(const Awaited &) = delete;
  ~Awaited();

  /// The thread hands out work, or waits for it, while this lives.
  class Turn {
  public:
    explicit Turn(Awaited &what);
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;
    ~Turn();

  private:
    Awaited &what;
  };

private:
  friend void lookAtAwaited(std::vector<struct AwaitedWork> &);
  const int rank;
  const std::function<uint64_t()> counted;
  // Under the table's lock:
  bool isGoing = false;
  SeenCount seen;
};

/// What is in a Turn.
struct AwaitedWork {
  int rank;
  SeenCount seen; ///< since: CLOCK_MONOTONIC
};
/// All of it, into `found`.
void lookAtAwaited(std::vector<AwaitedWork> &found);

} // namespace zc
