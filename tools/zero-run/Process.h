//===- Process.h - what this process owes its surroundings -----------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace zc::run {

/// From now on a thread that waits for its team spins for 1,000 rounds (20 to 50 us), then sleeps. GCC's OpenMP would
/// spin for 300,000; it is told when it is loaded, so the process begins once more. What OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT say stays.
void waitBriefly(char **argv);
/// This process does not outlive its parent: what a launcher started ends with it.
void dieWithParent();
/// Signals of a crash leave a backtrace in `file`, where its folder exists, before they end the process as they would.
void traceCrashes(const std::string &file);
/// From now on the first of the signals that stop a run (StopSignals.h) adds to the counter that is returned; a second
/// one, which SIGHUP never is, ends the process at once with 128 + its number. What was ignored when the process began
/// stays so.
const std::atomic<int> &catchSignals();
/// So many seconds after the first of these signals the process says so and ends as by a second one.
void setGrace(unsigned seconds);
/// A crash leaves no image of the memory, and with it of the weights: neither in a file nor to a program that collects
/// them.
void leaveNoCore();
/// Heap allocations of the process so far: by operator new, or where a counter is preloaded by malloc and its kin.
uint64_t allocations();

} // namespace zc::run
