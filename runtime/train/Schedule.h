//===- Schedule.h - the learning rate over a run -----------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace zc::train {

/// Learning rate as a function of the step, so that a resumed run needs nothing but the step. All rise linearly over
/// the warm-up, reaching the full rate with its last step; then `constant` stays, `linear` falls to zero at the end of
/// the run, `cosine` follows half a cosine to zero (Loshchilov and Hutter 2017), `wsd` stays and falls linearly over
/// the last fifth of the run (MiniCPM, 2024).
class Schedule {
public:
  /// Errors: usage (unknown name, negative rate or warm-up).
  static Result<Schedule> create(const std::string &name, double rate, int64_t warmup, int64_t steps);
  /// `step` counts from 1.
  double at(int64_t step) const;

private:
  using Shape = double (*)(double progress);
  Shape shape = nullptr; ///< share of the full rate after the warm-up, by progress in [0, 1)
  double rate = 0;
  int64_t warmup = 0, steps = 0;
};

} // namespace zc::train
