//===- VerifyLossScale.cpp - what is scaled is scaled back -------------------------------===//

#include "runtime/plan/Precision.h"
#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc::verify {

/// scale_c3
static Status verifyScaledStep(const planpb::Plan &plan, const WalkStep &where) {
  const planpb::Step &step = stepOf(plan, where);
  const std::string &kernel = plan.strings(static_cast<int>(step.kernel()));
  bool isScaled = kernel == "loss_scale" ||
                  std::any_of(step.attributes().begin(), step.attributes().end(), [&](const planpb::Attribute &each) {
                    return plan.strings(static_cast<int>(each.name())) == "scaled";
                  });
  bool isExpected = plan.has_loss_scale() && (kernel == "loss_scale" || kernel == "norm_finish");
  if (isScaled == isExpected)
    return {};
  return violation(562, "scale_c3",
                   describe(plan, where) + (isScaled ? " knows a loss scale, the plan does not"
                                                     : " does not divide by the loss scale that the plan has"),
                   plan.strings(static_cast<int>(step.node())));
}

Status verifyLossScale(const planpb::Plan &plan) {
  // scale_c1
  bool trainsInHalf = valueNamed<Precision>(plan.precision()) == Precision::fp16 && !plan.forward_only();
  if (plan.has_loss_scale() != trainsInHalf || (trainsInHalf && plan.metrics().grad_norm_slice() == -1))
    return violation(560, "scale_c1", "a plan scales its loss where it trains in fp16, and then has a norm");
  // scale_c2
  const planpb::LossScale &scale = plan.loss_scale();
  constexpr uint64_t kMost = uint64_t(1) << 62;
  bool isSound = scale.minimum() > 0 && scale.minimum() <= scale.initial() && scale.initial() <= 0x1p127 &&
                 scale.window() <= kMost && scale.hysteresis() >= 1 && scale.hysteresis() <= kMost;
  if (plan.has_loss_scale() && !isSound)
    return violation(561, "scale_c2",
                     "its loss scale begins at " + std::to_string(scale.initial()) + ", not below " +
                         std::to_string(scale.minimum()) + ", with window " + std::to_string(scale.window()) +
                         " and hysteresis " + std::to_string(scale.hysteresis()));
  for (uint32_t section : {0u, 1u}) {
    const planpb::Section &steps = sectionOf(plan, section);
    for (int i = 0; i < steps.steps_size(); ++i)
      ZC_RETURN_IF_ERROR(verifyScaledStep(plan, {section, 0, static_cast<uint32_t>(i)}));
  }
  return {};
}

} // namespace zc::verify
