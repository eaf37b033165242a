//===- LossScale.h - what the loss is multiplied by in half precision ------------------------===//
//
// Small gradients vanish in f16, so the loss is multiplied before it is differentiated, and gradients are divided
// before they are used. A step whose gradients are not all finite is skipped. The scale is as large as goes well for
// long: DeepSpeed's DynamicLossScaler (runtime/fp16/loss_scaler.py), step by step. All ranks see one norm, so all keep
// the same numbers without a word.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>

namespace zc::train {

/// What a checkpoint keeps of it, after a step.
struct LossScaleState {
  double scale = 1;
  int64_t hysteresis = 1;   ///< overflows until the scale halves
  int64_t lastOverflow = 0; ///< step, 0: none
  int64_t skipped = 0;      ///< steps in all
  int64_t inARow = 0;       ///< skipped steps since the last one that was not
};

class LossScale {
public:
  /// Of a plan that scales nothing: 1 for ever.
  LossScale() = default;
  explicit LossScale(const planpb::LossScale &rule);

  const LossScaleState &state() const { return now; }
  /// Continues after `step`. Errors: corrupt where the rule cannot have led there.
  Status restore(const LossScaleState &state, int64_t step);

  /// `step` (from 1) was skipped: the scale halves, once `hysteresis` steps were since it last grew or, with
  /// consecutive hysteresis, since a step that was not. Errors: numeric where it cannot fall, or, if it is fixed, where
  /// kMostSkipped steps in a row were skipped.
  Status skip(int64_t step);
  /// `step` was not: the scale doubles after `window` such steps on end.
  void advance(int64_t step);

  static constexpr int64_t kMostSkipped = 100;

private:
  bool isFixed() const { return rule.window() == 0; }

  planpb::LossScale rule;
  LossScaleState now;
};

} // namespace zc::train
