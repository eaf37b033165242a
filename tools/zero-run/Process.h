//===- Process.h - what this process owes its surroundings -----------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>

namespace zc::run {

/// Descriptors 0 to 2 exist afterwards, so that no file of ours takes their place; a closed pipe is an error of a
/// write, not a signal.
void guardStandardStreams();
/// From now on the first SIGINT or SIGTERM adds to the counter that is returned; the second ends the process at once
/// with 128 + its number.
const std::atomic<int> &catchSignals();
/// Heap allocations (operator new) of the process so far.
uint64_t allocations();

} // namespace zc::run
