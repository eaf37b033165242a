//===- PlanSteps.h - plans of a few steps, as tests write them ------------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

namespace zc {

inline void addStep(planpb::Section &section, planpb::Queue queue, double seconds) {
  planpb::Step &step = *section.add_steps();
  step.set_queue(queue);
  step.set_seconds(seconds);
}

inline void addWait(planpb::Section &section, int step, uint32_t on, planpb::Queue queue, uint32_t ordinal,
                    uint32_t distance) {
  planpb::Wait &wait = *section.mutable_steps(step)->add_waits();
  wait.set_section(on);
  wait.set_queue(queue);
  wait.set_ordinal(ordinal);
  wait.set_distance(distance);
}

/// A plan of no steps yet, without a gradient norm.
inline planpb::Plan emptyPlan(uint32_t accumulation) {
  planpb::Plan plan;
  plan.set_accumulation(accumulation);
  plan.add_slices();
  plan.mutable_metrics()->set_grad_norm_slice(-1);
  return plan;
}

} // namespace zc
