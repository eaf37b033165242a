//===- SignalStack.h - where a thread's signal handlers run --------------------===//
#pragma once

namespace zc {

/// While it lives, handlers with SA_ONSTACK that this thread runs have a stack of their own: one that reports a stack
/// overflow has no other room. For the first lines of a thread's main function. Without memory for it: does nothing.
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
