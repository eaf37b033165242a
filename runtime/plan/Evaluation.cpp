#include "runtime/plan/Evaluation.h"

#include "runtime/plan/Sections.h"

namespace zc {

static void freeze(planpb::Bucket &bucket) {
  bucket.set_trainable(false);
  bucket.set_gradients_sharded(false);
  bucket.set_optimizer_sharded(false);
  bucket.set_gradient_slice(-1);
  bucket.set_master_slice(-1);
  bucket.set_moment1_slice(-1);
  bucket.set_moment2_slice(-1);
  bucket.clear_residual_slices();
  bucket.clear_gradient_type();
}

planpb::Plan evaluationOf(const planpb::Plan &plan) {
  planpb::Plan own = plan;
  own.mutable_micro()->Swap(own.mutable_eval());
  own.clear_eval();
  own.clear_update();
  for (planpb::Step &step : *own.mutable_micro()->mutable_steps())
    for (planpb::Wait &wait : *step.mutable_waits())
      wait.set_section(wait.section() == kEvalSection ? 0 : kEvalSection); // of another section: refused
  own.set_forward_only(true);
  own.set_accumulation(1);
  own.set_vertical(false);
  own.clear_delay();
  own.clear_loss_scale();
  own.clear_metrics();
  own.clear_report();
  for (planpb::Bucket &bucket : *own.mutable_buckets())
    freeze(bucket);
  for (planpb::Parameter &parameter : *own.mutable_parameters())
    if (parameter.role() == planpb::TRAINABLE)
      parameter.set_role(planpb::FROZEN);
  return own;
}

} // namespace zc
