//===- StopSignals.h - the signals by which a run is told to stop --------------------------------------------===//
#pragma once

#include <csignal>

namespace zc::launch {

/// Ctrl-C, a request to end, what launchers pass on, a terminal that closes.
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

/// Whether whoever started this process has it ignore the signal.
inline bool isIgnored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
}

} // namespace zc::launch
