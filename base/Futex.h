//===- Futex.h - sleep until a word changes -----------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>

namespace zc {

/// Sleeps while `word` is `value`; may wake early. A change must be followed by wakeAll to be noticed.
void sleepWhile(const std::atomic<uint32_t> &word, uint32_t value);
void wakeAll(const std::atomic<uint32_t> &word);

/// Tries `ready()` for a microsecond or two: what a hand-over between running threads takes, and little enough to leave
/// shared cores to others. True if it came true.
template <typename Ready> bool spinUntil(const Ready &ready) {
  for (int i = 0; i < 64; ++i) {
    if (ready())
      return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

} // namespace zc
