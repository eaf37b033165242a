#include "test/runtime/Damage.h"

#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"
#include "test/runtime/TestPlan.h"

#include <gtest/gtest.h>

namespace zc::test {

planpb::Step *micro(Plan &plan, int i) { return plan.mutable_micro()->mutable_steps(i); }
planpb::Step *update(Plan &plan, int i) { return plan.mutable_update()->mutable_steps(i); }
void setAxes(planpb::Step *step, std::initializer_list<uint32_t> axes) {
  for (uint32_t axis : axes)
    step->add_axes(axis);
}
void setStrides(planpb::Operand *operand, std::initializer_list<uint64_t> strides) {
  operand->mutable_strides()->Clear();
  operand->mutable_strides()->Add(strides.begin(), strides.end());
}

void makeBuffer(Plan &plan, bool persistent, uint64_t bytes) {
  planpb::Slice &slice = *plan.add_slices();
  slice.set_offset((plan.arenas(0).bytes() + 255) / 256 * 256);
  slice.set_bytes(bytes);
  slice.set_persistent(persistent);
  plan.mutable_arenas(0)->set_bytes(slice.offset() + bytes);
  plan.mutable_parameters(0)->set_role(planpb::BUFFER);
  plan.mutable_parameters(0)->set_bucket(-1);
  plan.mutable_parameters(0)->set_slice(plan.slices_size() - 1);
  plan.mutable_buckets(0)->set_used(0);
}

int addSlice(Plan &plan, uint64_t bytes, planpb::Tier tier) {
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t slice = b.slice("added", bytes, true, -1, tier);
  b.plan.Swap(&plan);
  return static_cast<int>(slice);
}

void addEvaluation(Plan &plan) {
  planpb::Output &output = *plan.add_outputs();
  output.set_name("loss");
  output.set_type(static_cast<uint32_t>(plan.micro().steps(1).operands(3).type()));
  output.set_kind(planpb::LOSS);
  *plan.mutable_eval()->add_steps() = plan.micro().steps(0);
  *plan.mutable_eval()->add_steps() = plan.micro().steps(1);
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  planpb::Operand loss = b.plan.micro().steps(1).operands(3);
  loss.set_access(planpb::READ);
  planpb::Step store = b.step(1, planpb::COMPUTE, "store_output", 1, {loss});
  b.integer(store, "output", 0);
  b.plan.mutable_update()->mutable_steps()->RemoveLast();
  *b.plan.mutable_eval()->add_steps() = store;
  b.plan.Swap(&plan);
  for (planpb::Section *section : {plan.mutable_micro(), plan.mutable_update(), plan.mutable_eval()})
    for (planpb::Step &step : *section->mutable_steps())
      step.clear_waits();
  ASSERT_TRUE(addWaits(plan).ok());
}

void delay(Plan &plan) {
  uint64_t bytes =
      plan.buckets(0).padded() * 4 / (plan.buckets(0).optimizer_sharded() ? cutsOf(plan.buckets(0), meshOf(plan)) : 1);
  plan.mutable_buckets(0)->set_master_slice(addSlice(plan, bytes, planpb::HOST));
  plan.mutable_delay()->set_after(3);
}

void scaleLoss(Plan &plan, double initial, double minimum, uint64_t hysteresis) {
  plan.set_precision("fp16");
  plan.mutable_metrics()->set_grad_norm_slice(addSlice(plan, 4, planpb::DEVICE));
  plan.mutable_loss_scale()->set_initial(initial);
  plan.mutable_loss_scale()->set_minimum(minimum);
  plan.mutable_loss_scale()->set_window(1000);
  plan.mutable_loss_scale()->set_hysteresis(hysteresis);
}

planpb::Operand *worksIn(Plan &plan, planpb::Tier tier, bool persistent) {
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t slice = b.slice("workspace", 256, persistent, -1, tier);
  *micro(b.plan, 1)->mutable_workspace() = b.operand(slice, b.type(planpb::U8, {256}), planpb::WRITE);
  b.plan.Swap(&plan);
  return micro(plan, 1)->mutable_workspace();
}

planpb::Kept *keeps(Plan &plan, planpb::Tier tier, bool persistent) {
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t slice = b.slice("kept", 256, persistent, -1, tier);
  *micro(b.plan, 1)->mutable_kept()->mutable_place() = b.operand(slice, b.type(planpb::U8, {256}), planpb::READ_WRITE);
  b.plan.Swap(&plan);
  return micro(plan, 1)->mutable_kept();
}

void overwriteKept(Plan &plan) {
  const planpb::Slice kept = plan.slices(static_cast<int>(keeps(plan)->place().slice()));
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t over = b.slice("over", 256, false), type = b.type(planpb::U8, {256});
  b.plan.mutable_slices(static_cast<int>(over))->set_offset(kept.offset());
  b.step(0, planpb::COMPUTE, "copy", 1, {b.operand(0, type, planpb::READ), b.operand(over, type, planpb::WRITE)});
  b.plan.Swap(&plan);
}

void addViewWords(Plan &plan, const std::vector<int64_t> &words) {
  planpb::Attribute *views = micro(plan, 1)->add_attributes();
  views->set_name(addString(plan, "views"));
  for (int64_t word : words)
    views->add_integers(word);
}
void seeThrough(Plan &plan, const std::vector<StridedView> &views) { addViewWords(plan, encode(views)); }

uint32_t addString(Plan &plan, const char *text) {
  plan.add_strings(text);
  return static_cast<uint32_t>(plan.strings_size() - 1);
}

void addOutputStep(Plan &plan, uint32_t section) {
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  b.integer(b.step(section, planpb::COMPUTE, "store_output", 1, {b.operand(0, 0, planpb::READ)}), "output", 0);
  b.plan.Swap(&plan);
}

planpb::Step &addCopy(Plan &plan, const char *kernel, planpb::Queue queue, uint32_t from, uint32_t to, int64_t bytes) {
  PlanBuilder b(1, 1);
  b.plan.Swap(&plan);
  uint32_t type = b.type(planpb::U8, {bytes});
  planpb::Step &step =
      b.step(1, queue, kernel, 1, {b.operand(from, type, planpb::READ), b.operand(to, type, planpb::WRITE)});
  b.plan.Swap(&plan);
  return step;
}

planpb::Step &addSpill(Plan &plan, uint64_t bytes, uint64_t moved, uint64_t offset) {
  auto host = static_cast<uint32_t>(addSlice(plan, bytes, planpb::HOST));
  auto nvme = static_cast<uint32_t>(addSlice(plan, bytes, planpb::NVME));
  planpb::Step &step = addCopy(plan, "nvme_write", planpb::NVME_WRITE, host, nvme, static_cast<int64_t>(moved));
  step.mutable_operands(0)->set_offset(offset);
  step.mutable_operands(1)->set_offset(offset);
  return step;
}

void addThreadShare(Plan &plan, planpb::Queue queue, uint32_t thousandths) {
  planpb::ThreadShare &share = *plan.add_thread_shares();
  share.set_queue(queue);
  share.set_thousandths(thousandths);
}

void addSecondParameter(Plan &plan, uint64_t offset) {
  *plan.add_parameters() = plan.parameters(0);
  plan.mutable_types()->Add()->set_type(planpb::F32);
  plan.mutable_parameters(1)->set_type(static_cast<uint32_t>(plan.types_size() - 1));
  plan.mutable_parameters(1)->set_inline_(std::string(4, '\0'));
  plan.mutable_parameters(1)->set_offset(offset);
  plan.mutable_buckets(0)->set_used(101);
}

} // namespace zc::test
