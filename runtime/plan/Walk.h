//===- Walk.h - a plan's steps through the hazard tracker ---------------------===//
#pragma once

#include "base/Status.h"
#include "base/Tensor.h"
#include "runtime/plan/Hazards.h"
#include "runtime/plan/Sections.h"

#include <functional>
#include <string>
#include <vector>

namespace zc {

/// One executed step of a walk.
struct WalkStep {
  uint32_t section = 0;   ///< 0 micro, 1 update
  uint32_t execution = 0; ///< of that section, from 0
  uint32_t index = 0;     ///< in plan order within the section
};

/// Calls fn(operand) for what a step touches in each execution: its operands, then its workspace if it has one.
template <typename Fn> void forOperands(const planpb::Step &step, Fn fn) {
  for (const planpb::Operand &operand : step.operands())
    fn(operand);
  if (step.has_workspace())
    fn(step.workspace());
}

/// Bytes of a tensor whose size is known not to overflow (verifyPlan).
uint64_t bytesOf(const planpb::TensorType &type);
const planpb::Step &stepOf(const planpb::Plan &plan, const WalkStep &step);
/// `error` with the step's node as its place, unless it has one.
Error locate(Error error, const planpb::Plan &plan, uint32_t section, uint32_t index);

/// Executes `walkOrder` on a HazardTracker for all ranks at once, with the waits the plan has at each visit; a visitor
/// may add some. What a step keeps for the next micro-steps it writes in the first, and reads in the others. What an
/// operand touches at an offset that depends on the rank reaches from where it is first to where it is last; what it
/// writes is written for reads that depend on it alike. A plan with a delayed update has a second way of running, that
/// of the steps before it is delayed (`ordinary`).
class PlanWalk {
public:
  using Visit = std::function<Status(const WalkStep &here, const HazardTracker::Findings &findings)>;

  explicit PlanWalk(const planpb::Plan &plan, bool ordinary = false);
  /// Stops at the first error of `visit`, or when the walk visits more than `workLimit` intervals (corrupt).
  Status run(const Visit &visit, uint64_t workLimit = ~uint64_t(0));

  WalkStep locate(HazardTracker::StepId id) const;
  /// The wait by which the step at `here` comes after `earlier`.
  planpb::Wait waitFor(const WalkStep &here, HazardTracker::StepId earlier) const;

private:
  /// Which steps of a part do something: where updates are not delayed yet, those that publish come last.
  enum class Turn : uint8_t { all, others, publishing };
  struct Part {
    uint32_t section = 0, execution = 0;
    Turn turn = Turn::all;
    HazardTracker::StepId first = 0;
  };
  void addPart(uint32_t section, uint32_t execution, Turn turn);
  void applyWaits(HazardTracker &tracker, const planpb::Step &step, const Part &part) const;

  const planpb::Plan &plan;
  uint32_t accumulation;                             // of the walk
  HazardTracker::StepId numSteps = 0;                // of the walk
  std::vector<Part> parts;                           // in walk order
  std::vector<HazardTracker::StepId> executions[2];  // first step of each execution, per section
  std::vector<uint32_t> ordinals[2];                 // of each step on its queue
  std::vector<uint32_t> stepsOfQueue[2][kNumQueues]; // step index by ordinal
};

/// Null if the step has none of that name.
const planpb::Attribute *findAttribute(const planpb::Plan &plan, const planpb::Step &step, const char *name);

/// How often a step executes section micro.
inline uint32_t microExecutions(const planpb::Plan &plan) { return plan.vertical() ? 1 : plan.accumulation(); }

/// Adds to every step the waits that are missing, few as may be; operands, queues and order are final, the plan would
/// otherwise pass verifyPlan. Errors: a stale read (internal), with both steps.
Status addWaits(planpb::Plan &plan);

/// "f32[2x3]".
std::string typeText(const planpb::Plan &plan, uint32_t type);
/// "f32[2x3], i64[3] -> f32[3]": inputs before the arrow.
std::string operandTypes(const planpb::Plan &plan, const planpb::Step &step);

/// A step for messages: section, index, kernel, queue and node.
std::string describe(const planpb::Plan &plan, const WalkStep &step);
Error staleReadError(const planpb::Plan &plan, const PlanWalk &walk, const WalkStep &here,
                     const HazardTracker::StaleRead &stale, Code code);

} // namespace zc
