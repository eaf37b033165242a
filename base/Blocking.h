//===- Blocking.h - where a thread waits for something outside of this process ------------------===//
//
// A read from a file server that is gone, a disk that does not answer: such a call may never return, and nothing of
// ours runs while it does not. Who makes one says so by a Blocking on its stack; a watchdog looks at them all.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zc {

/// This thread does `doing` ("reading") with the file `what` while the object lives; inside of another it is part of
/// that one. Takes no memory; costs some 50 ns.
class Blocking {
public:
  Blocking(const char *doing, const std::string &what);
  Blocking(const Blocking &) = delete;
  Blocking &operator=(const Blocking &) = delete;
  ~Blocking();
};

/// A thread that is in one for long.
struct BlockedThread {
  int rank = -1;     ///< -1: of no rank, or of all in this process (setFaultContext)
  int64_t step = -1; ///< as said there
  int64_t since = 0; ///< ns of CLOCK_MONOTONIC
  std::string where; ///< "reading \"tokens.bin\""
};
/// Those that are in one for longer than `ns`. Only they take memory: who looks while a step is at work and finds all
/// well allocates nothing in it.
std::vector<BlockedThread> blockedThreads(int64_t ns);

/// How many were gone through so far by threads of `rank`: a rank whose number grows gets on.
uint64_t blockingsPassed(int rank);

/// Does `work` on a thread of its own for at most so long; false where it is not through by then and goes on alone: for
/// what must not keep a process from ending.
bool finishesWithin(double seconds, std::function<void()> work);

} // namespace zc
