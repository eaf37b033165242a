//===- Timeline.h - when each step of a plan is expected to run ---------------------------===//
#pragma once

#include "runtime/plan/Walk.h"

#include <vector>

namespace zc {

struct PlannedStep {
  WalkStep where;
  double begin = 0, end = 0; ///< seconds
};

/// A rank's queues over a few training steps.
struct Timeline {
  std::vector<PlannedStep> steps; ///< in plan order
  uint32_t microExecutions = 1;   ///< of section micro, that were played per training step
  uint32_t trainingSteps = 0;     ///< that were played
  double secondsPerStep = 0;      ///< from one loss to the next once the pipeline is full, with all micro-steps
};

/// Plays a plan by its steps' `seconds`: a queue runs its steps in order, a step starts when what it waits for
/// has ended, and a training step starts when the metrics of the last one are there, as the runtime has it. All ranks
/// are taken to run alike. Where a step has very many micro-steps, fewer are played and the rest is added at their
/// pace.
Timeline playTimeline(const planpb::Plan &plan);

} // namespace zc
