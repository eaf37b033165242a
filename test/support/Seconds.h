//===- Seconds.h - how long something takes ------------------------------------------===//
#pragma once

#include <chrono>

namespace zc::test {

/// Seconds that `work()` takes.
template <typename Work> double secondsOf(Work &&work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace zc::test
