//===- AddressSpace.cpp - too little of it, before a library waits for more for ever ------===//
//
// OpenBLAS asks for memory when it is loaded, and where ulimit -v leaves too little it asks again and again: main is
// never reached. What stands in .preinit_array of a program runs before its libraries begin.
//
//===----------------------------------------------------------------------===//
// Sanitizers need terabytes, and begin in .preinit_array themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "base/Status.h"

#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace zc::run {

/// Of OpenBLAS 0.3.21: two buffers of 128 MiB.
static constexpr size_t kNeeded = size_t(256) << 20;

static void checkAddressSpace(int, char **, char **) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  void *tried = ::mmap(nullptr, kNeeded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (tried != MAP_FAILED) {
    ::munmap(tried, kNeeded);
    return;
  }
  char text[300];
  int length =
      std::snprintf(text, sizeof text,
                    "error[Z0981]: the libraries need %zu bytes of addresses more than ulimit -v leaves, which "
                    "is %llu\n  = help: give a higher ulimit -v, or none\n",
                    kNeeded, static_cast<unsigned long long>(limit.rlim_cur));
  ssize_t ignored = ::write(2, text, size_t(length));
  (void)ignored;
  ::_exit(int(Code::budget));
}

__attribute__((section(".preinit_array"), used)) static void (*const beforeLibraries)(int, char **,
                                                                                      char **) = checkAddressSpace;

} // namespace zc::run

#endif
