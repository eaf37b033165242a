#include "runtime/train/Straggler.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace zc::train {

void Straggler::note(const std::vector<Pulse> &pulses, int64_t step, double seconds) {
  auto less = [](const Pulse &a, const Pulse &b) { return a.waited < b.waited; };
  auto first = std::min_element(pulses.begin(), pulses.end(), less);
  double others = seconds;
  for (auto pulse = pulses.begin(); pulse != pulses.end(); ++pulse)
    if (pulse != first)
      others = std::min(others, pulse->waited);
  const double waited = others - first->waited;
  int slowest = waited > 0.5 * seconds ? int(first - pulses.begin()) : -1;
  if (slowest != rank)
    steps = 0, waitedFor = 0;
  ++steps;
  waitedFor += waited;
  rank = slowest;
  if (slowest < 0 || slowest == named || steps < 3 || waitedFor < 0.5)
    return;
  named = slowest;
  isToBeNamed = true;
  std::snprintf(text.data(), text.size(), "rank %d is slow: in step %lld the others waited for it %.3g s of %.3g s",
                slowest, static_cast<long long>(step), waited, seconds);
}

const char *Straggler::take() { return std::exchange(isToBeNamed, false) ? text.data() : nullptr; }

} // namespace zc::train
