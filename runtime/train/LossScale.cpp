#include "runtime/train/LossScale.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace zc::train {

/// Beyond, it would be no fp32 number.
constexpr double kLargest = 0x1p127;

LossScale::LossScale(const planpb::LossScale &rule) : rule(rule) {
  now.scale = rule.initial();
  now.hysteresis = static_cast<int64_t>(rule.hysteresis());
}

Status LossScale::restore(const LossScaleState &state, int64_t step) {
  bool isSound = state.scale >= rule.minimum() && state.scale <= std::max(rule.initial(), kLargest) &&
                 state.hysteresis >= 1 && state.hysteresis <= static_cast<int64_t>(rule.hysteresis()) &&
                 state.lastOverflow >= 0 && state.lastOverflow <= step && state.skipped >= 0 && state.skipped <= step &&
                 state.inARow >= 0 && state.inARow <= state.skipped;
  if (!isSound)
    return makeError(Code::corrupt, 958,
                     "the checkpoint's loss scale is none that step " + std::to_string(step) +
                         " of this plan can have");
  now = state;
  if (isFixed()) // however another plan may have scaled
    now.scale = rule.initial();
  return Status::success();
}

static Error exhausted(double scale, int64_t steps, const char *why) {
  char text[160];
  std::snprintf(text, sizeof text, "gradients are not finite at loss scale %.9g, %s; %lld steps in a row were skipped",
                scale, why, static_cast<long long>(steps));
  return makeError(Code::numeric, 957, text, "",
                   "lower --lr, clip gradients with zero-compile --clip-grad-norm, or use --precision bf16");
}

Status LossScale::skip(int64_t step) {
  ++now.skipped;
  ++now.inARow;
  now.lastOverflow = step;
  if (isFixed())
    return now.inARow < kMostSkipped ? Status::success() : exhausted(now.scale, now.inARow, "which is fixed");
  if (now.hysteresis > 1) {
    --now.hysteresis;
    return Status::success();
  }
  if (now.scale <= rule.minimum())
    return exhausted(now.scale, now.inARow, "the smallest allowed");
  now.scale = std::max(now.scale / 2, rule.minimum());
  return Status::success();
}

void LossScale::advance(int64_t step) {
  now.inARow = 0;
  if (isFixed())
    return;
  auto whole = static_cast<int64_t>(rule.hysteresis());
  if (rule.consecutive_hysteresis())
    now.hysteresis = whole;
  int64_t before = step - now.lastOverflow - 1; // good steps on end before this one
  if (before == 0 || before % static_cast<int64_t>(rule.window()) != 0)
    return;
  now.hysteresis = whole;
  if (now.scale <= kLargest / 2)
    now.scale *= 2;
}

} // namespace zc::train
