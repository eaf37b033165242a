//===- Wait.h - waiting for MPI without burning a core -------------------------------===//
#pragma once

#include <sched.h>
#include <time.h>

namespace zc {

/// MPI makes progress only while it is asked, but the core may be needed by the kernels that communication overlaps
/// with: asks often at first, then gives the core away between questions.
class Backoff {
public:
  void pause() {
    ++rounds;
    if (rounds < 100)
      return;
    if (rounds < 400) {
      ::sched_yield();
      return;
    }
    timespec time = {0, rounds < 2000 ? 20000 : 100000};
    ::nanosleep(&time, nullptr);
  }
  /// Now and then, when it has become slow.
  bool isLong() const { return rounds >= 400 && rounds % 64 == 0; }

private:
  unsigned rounds = 0;
};

} // namespace zc
