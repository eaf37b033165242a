//===- BlockedSignals.h - which threads signals are for ------------------------------===//
#pragma once

#include <csignal>

namespace zc {

/// While it lives, this thread and those that it begins, for good, leave signals that the process is sent to others:
/// the main thread has them. Those of a crash stay, whose handler tells where it was.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t sent;
    ::sigfillset(&sent);
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      ::sigdelset(&sent, number);
    ::pthread_sigmask(SIG_BLOCK, &sent, &before);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  BlockedSignals(const BlockedSignals &) = delete;
  BlockedSignals &operator=(const BlockedSignals &) = delete;

private:
  sigset_t before;
};

} // namespace zc
