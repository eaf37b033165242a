//===- UpdateSettings.h - an optimizer and its numbers ----------------------------------===//
#pragma once

#include "kernels/UpdateRule.h"

#include <optional>
#include <string>

namespace zc {

/// In torch.optim's terms, with its defaults: as flags give it, a model brings it along, and a plan records it. What
/// is nothing has not been said.
struct UpdateSettings {
  UpdateRule rule = UpdateRule::adamw;
  std::optional<double> lr;
  std::string lrSchedule; ///< as zc::Schedule takes it (runtime/plan/Schedule.h); empty: the rate is constant
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum = 0.9;
  std::optional<double> weightDecay; ///< of parameters that have none of their own
  double maxNorm = 0;                ///< of all gradients together, to which they are clipped; 0: they are not

  double lrOrDefault() const { return lr.value_or(1e-3); }
  /// Torch's depends on the rule.
  double weightDecayOrDefault() const { return weightDecay.value_or(rule == UpdateRule::adamw ? 0.01 : 0.0); }
};

} // namespace zc
