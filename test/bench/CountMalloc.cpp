//===- CountMalloc.cpp - how many times a program asks for memory ----------------===//
//
// Preloaded: zero-run's count of allocations in steady steps is then this one, of malloc and its kin.
//
//===----------------------------------------------------------------------===//
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// glibc's own entry points; they need no lookup that could itself allocate.
extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);
extern "C" void *__libc_memalign(size_t, size_t);

static std::atomic<uint64_t> calls{0};
static void count() { calls.fetch_add(1, std::memory_order_relaxed); }

/// Calls so far (tools/zero-run/Process.cpp). With ZC_COUNT_ITSELF each question is a call, which shows that it is
/// asked.
extern "C" uint64_t zcCountMalloc() {
  static const bool countsItself = std::getenv("ZC_COUNT_ITSELF") != nullptr;
  if (countsItself)
    count();
  return calls.load(std::memory_order_relaxed);
}

extern "C" void *malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
extern "C" void *calloc(size_t elements, size_t bytes) {
  count();
  return __libc_calloc(elements, bytes);
}
extern "C" void *realloc(void *old, size_t bytes) {
  count();
  return __libc_realloc(old, bytes);
}
extern "C" void *memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
extern "C" void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
extern "C" int posix_memalign(void **pointer, size_t alignment, size_t bytes) {
  *pointer = memalign(alignment, bytes);
  return *pointer ? 0 : ENOMEM;
}
