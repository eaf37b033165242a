//===- Straggler.h - the rank that the others wait for ---------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace zc::train {

/// What ranks tell each other in each step.
struct Pulse {
  double waited = 0; ///< seconds in collectives since the last one
  uint64_t stop = 0;
};

/// A rank that all others wait for, for half of the seconds of a step or more, three steps and half a second on end, is
/// named once: of short steps a busy machine makes some that look like that.
class Straggler {
public:
  /// Of `step`, which took so many seconds; `pulses` by rank.
  void note(const std::vector<Pulse> &pulses, int64_t step, double seconds);
  /// What is to be said, once the step is over; null where there is nothing, or it has been said.
  const char *take();

private:
  int rank = -1, steps = 0;
  double waitedFor = 0; ///< seconds, in these steps
  int named = -1;       ///< the last that was
  bool isToBeNamed = false;
  std::array<char, 160> text{};
};

} // namespace zc::train
