//===- AllocationCount.h - how often memory was asked for ---------------------===//
#pragma once

#include <cstdint>

namespace zc::test {

/// Calls of operator new in this program so far, on all threads.
uint64_t allocations();

} // namespace zc::test
