//===- SignalStack.h - where a thread's signal handlers run --------------------===//
#pragma once

namespace zc {

/// While it lives, handlers with SA_ONSTACK that this thread runs have a stack of their own: one that reports a stack
/// overflow has no other room. For the first lines of a thread's main function: ranks, queues, streams, workers, I/O.
/// OpenMP's threads have none, since kernels do not recurse; other crashes there are reported on the thread's own
/// stack. Without memory for it: does nothing.
class SignalStack {
public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack &) = delete;
  SignalStack &operator=(const SignalStack &) = delete;

private:
  void *memory = nullptr;
};

} // namespace zc
