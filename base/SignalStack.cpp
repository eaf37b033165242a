#include "base/SignalStack.h"

#include <csignal>
#include <sys/mman.h>

namespace zc {

// A backtrace through the unwinder, and the registers of AVX-512 and AMX that the kernel saves there.
static constexpr size_t kBytes = size_t(128) << 10;

SignalStack::SignalStack() {
  void *pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (pages == MAP_FAILED)
    return;
  stack_t stack = {};
  stack.ss_sp = pages;
  stack.ss_size = kBytes;
  if (::sigaltstack(&stack, nullptr) == 0)
    memory = pages;
  else
    ::munmap(pages, kBytes);
}

SignalStack::~SignalStack() {
  if (!memory)
    return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  ::munmap(memory, kBytes);
}

} // namespace zc
