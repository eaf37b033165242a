//===- AllocationCount.h - how often memory was asked for ---------------------===//
#pragma once

#include <cstdint>

namespace zc::test {

/// Calls of operator new in this program so far, on all threads.
uint64_t allocations();

/// The calling thread's next call finds no memory: std::bad_alloc. Whether it has come, which ends the wish.
void failNextAllocation();
bool takeFailedAllocation();

} // namespace zc::test
