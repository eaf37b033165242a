//===- Clock.h - a clock ----------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <ctime>

namespace zc {

/// Of a clock that only goes forward, unless told otherwise.
inline int64_t nanoseconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time;
  ::clock_gettime(clock, &time);
  return time.tv_sec * int64_t(1000000000) + time.tv_nsec;
}
/// The same in seconds.
inline double now() { return static_cast<double>(nanoseconds()) * 1e-9; }

} // namespace zc
