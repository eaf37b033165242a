//===- VerifyDelay.cpp - what publishes, and that it can ---------------------------------===//

#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <set>

namespace zc::verify {

namespace {

Error stepError(const planpb::Plan &plan, const WalkStep &where, int number, const std::string &what) {
  return violation(number, "delay_c2", describe(plan, where) + " " + what,
                   plan.strings(static_cast<int>(stepOf(plan, where).node())));
}

/// delay_c2
Status verifyPublishing(const planpb::Plan &plan, const WalkStep &where, const std::set<uint32_t> &parameters) {
  if (!plan.has_delay() || where.section == 0)
    return stepError(plan, where, 556, "publishes, but is of no delayed update");
  for (const planpb::Operand &operand : stepOf(plan, where).operands()) {
    const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
    if (operand.access() != planpb::READ && slice.persistent() && !parameters.count(operand.slice()))
      return stepError(plan, where, 557,
                       "publishes, and writes slice \"" + slice.name() + "\", which holds no parameters that train");
  }
  return {};
}

} // namespace

Status verifyDelay(const planpb::Plan &plan) {
  // delay_c1
  bool isSound = !plan.forward_only() && plan.delay().after() <= (uint64_t(1) << 62);
  std::set<uint32_t> parameters;
  for (const planpb::Bucket &bucket : plan.buckets()) {
    if (!bucket.trainable())
      continue;
    parameters.insert(static_cast<uint32_t>(bucket.parameter_slice()));
    isSound = isSound && bucket.master_slice() != -1;
  }
  if (plan.has_delay() && !isSound)
    return violation(555, "delay_c1",
                     "its update is delayed after step " + std::to_string(plan.delay().after()) +
                         ", but it trains nothing, or a bucket that trains has no master");
  for (uint32_t section : {0u, 1u}) {
    const planpb::Section &steps = sectionOf(plan, section);
    for (int i = 0; i < steps.steps_size(); ++i)
      if (steps.steps(i).publishes())
        ZC_RETURN_IF_ERROR(verifyPublishing(plan, {section, 0, static_cast<uint32_t>(i)}, parameters));
  }
  return {};
}

} // namespace zc::verify
