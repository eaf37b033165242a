#include "test/base/AllocationCount.h"

#include <atomic>
#include <cstdlib>
#include <new>

// A file of its own: inlined into users of new, a compiler takes the pair below for a mismatch.

static std::atomic<uint64_t> count{0};

enum class Wish : char { none, fail, failed };
static thread_local Wish wish = Wish::none;

void zc::test::failNextAllocation() { wish = Wish::fail; }
bool zc::test::takeFailedAllocation() {
  bool failed = wish == Wish::failed;
  wish = Wish::none;
  return failed;
}

uint64_t zc::test::allocations() { return count.load(); }

void *operator new(size_t bytes) {
  ++count;
  if (wish == Wish::fail) {
    wish = Wish::failed;
    throw std::bad_alloc();
  }
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
