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
#include <string>
#include <vector>

namespace zc {

/// Work that a rank hands out. One thread's, but for the counting.
class Awaited {
public:
  /// `counted()` changes whenever any of the work is done, or handed out; `where()` is how far it is, in words ("COMM
  /// is through"). Asked from another thread during a Turn.
  Awaited(int rank, std::function<uint64_t()> counted, std::function<std::string()> where);
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
  friend std::string whereAwaited(int);
  const int rank;
  const std::function<uint64_t()> counted;
  const std::function<std::string()> where;
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
/// How far the rank's is; empty: it is in no Turn.
std::string whereAwaited(int rank);

} // namespace zc
