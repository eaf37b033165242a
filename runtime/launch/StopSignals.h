//===- StopSignals.h - the signals by which a run is told to stop --------------------------------------------===//
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace zc::launch {

/// Ctrl-C, a request to end, what launchers pass on, a terminal that closes.
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

/// Whether whoever started this process has it ignore the signal.
inline bool isIgnored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
}

/// Whether a request to stop comes so soon after the one before that it is the same: `timeout`, batch systems and
/// whoever passes signals on tell a process twice, by itself and as one of a group. For a signal's handler.
inline bool isSameRequest() {
  constexpr int64_t kMilliseconds = 200; // less than between two that a person means
  static std::atomic<int64_t> before{-kMilliseconds};
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t(time.tv_sec) * 1000 + time.tv_nsec / 1000000;
  if (now - before.load(std::memory_order_relaxed) < kMilliseconds)
    return true;
  before.store(now, std::memory_order_relaxed);
  return false;
}

} // namespace zc::launch
