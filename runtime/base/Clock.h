//===- Clock.h - a clock in nanoseconds ------------------------------------------===//
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

} // namespace zc
