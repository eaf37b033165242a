//===- Process.h - what this process owes its surroundings -----------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace zc::run {

/// Descriptors 0 to 2 exist afterwards, so that no file of ours takes their place; a closed pipe is an error of a
/// write, not a signal.
void guardStandardStreams();
/// This process does not outlive its parent: what a launcher started ends with it.
void dieWithParent();
/// Signals of a crash leave a backtrace in `file`, where its folder exists, before they end the process as they would.
void traceCrashes(const std::string &file);
/// From now on the first SIGINT, SIGTERM or SIGUSR1 adds to the counter that is returned; the second ends the process
/// at once with 128 + its number.
const std::atomic<int> &catchSignals();
/// Heap allocations (operator new) of the process so far.
uint64_t allocations();

} // namespace zc::run
