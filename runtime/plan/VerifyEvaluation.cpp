#include "runtime/plan/Evaluation.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc::verify {

Status verifyEvaluation(const planpb::Plan &plan) {
  if (!plan.has_eval())
    return {};
  // eval_c1
  auto isLoss = [](const planpb::Output &output) { return output.kind() == planpb::LOSS; };
  if (plan.forward_only() || std::none_of(plan.outputs().begin(), plan.outputs().end(), isLoss))
    return violation(587, "eval_c1", "an evaluation of a plan that trains nothing, or has no loss");
  planpb::Plan own = evaluationOf(plan);
  // eval_c2
  if (Status status = verifyPlan(own); !status.ok()) {
    Error error = status.error();
    error.note += (error.note.empty() ? "" : "; ") + std::string("of the evaluation as a plan by itself (eval_c2)");
    return error;
  }
  // eval_c3
  for (const planpb::Step &step : plan.eval().steps())
    for (const planpb::Operand &operand : step.operands())
      if (const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
          operand.access() != planpb::READ && slice.persistent())
        return violation(588, "eval_c3", "the evaluation writes slice \"" + slice.name() + "\", which outlives it",
                         plan.strings(static_cast<int>(step.node())));
  return {};
}

} // namespace zc::verify
