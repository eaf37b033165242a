#include "base/TensorSize.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Precision.h"
#include "runtime/plan/Schedule.h"
#include "runtime/plan/ThreadShares.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace zc::verify {

namespace {

constexpr uint64_t kMaxArenaBytes = uint64_t(1) << 52;
constexpr size_t kMaxString = 65536;
constexpr int kMaxSteps = 4000000;

Status verifyHeader(const planpb::Plan &plan) {
  // plan_c1
  if (plan.format() != kPlanFormat)
    return otherFormat(plan.format());
  // plan_c2
  if (std::string problem = Mesh::problem(meshAxesOf(plan)); !problem.empty())
    return violation(460, "plan_c2", "the mesh " + problem);
  for (const planpb::MeshAxis &axis : plan.mesh())
    if (!planpb::AxisKind_IsValid(axis.kind()))
      return violation(461, "plan_c2",
                       "axis \"" + axis.name() + "\" of the mesh has unknown kind " + std::to_string(axis.kind()));
  if (plan.zero_stage() > 3)
    return violation(462, "plan_c2", "ZeRO stage " + str(plan.zero_stage()) + " is not in 0..3");
  if (plan.accumulation() < 1 || plan.accumulation() > (1u << 20))
    return violation(463, "plan_c2", "accumulation " + str(plan.accumulation()) + " is not in 1..1048576");
  if (plan.vertical() && plan.accumulation() < 2)
    return violation(559, "plan_c2", "is vertical with one micro-step");
  if (!valueNamed<Precision>(plan.precision()))
    return violation(464, "plan_c2", "precision \"" + plan.precision() + "\" is neither fp32 nor bf16 nor fp16");
  if (!planpb::Target_IsValid(plan.target()))
    return violation(568, "plan_c2", "target " + str(plan.target()) + " is no known one");
  // plan_c4
  if (plan.micro().steps_size() > kMaxSteps || plan.update().steps_size() > kMaxSteps)
    return violation(465, "plan_c4", "more than " + str(kMaxSteps) + " steps");
  // plan_c5
  const planpb::Optimizer &o = plan.optimizer();
  for (double number : {o.lr(), o.beta1(), o.beta2(), o.eps(), o.weight_decay(), o.momentum(), o.max_norm()})
    if (!std::isfinite(number))
      return violation(466, "plan_c5", "a number of optimizer \"" + o.rule() + "\" is not finite");
  if (std::string problem = o.lr_schedule().empty() ? "" : Schedule::problem(o.lr_schedule()); !problem.empty())
    return violation(586, "plan_c5", "the schedule of the learning rate " + problem);
  return {};
}

Status verifyThreadShares(const planpb::Plan &plan) {
  // share_c1
  int last = -1;
  for (const planpb::ThreadShare &share : plan.thread_shares()) {
    if (!planpb::Queue_IsValid(share.queue()) || share.queue() <= last)
      return violation(596, "share_c1",
                       "a share of threads is of queue " + std::to_string(share.queue()) + ", after that of queue " +
                           std::to_string(last));
    if (share.thousandths() < 1 || share.thousandths() > kAllThreads)
      return violation(597, "share_c1",
                       "queue " + planpb::Queue_Name(share.queue()) + " has " + str(share.thousandths()) +
                           " thousandths of the threads");
    last = share.queue();
  }
  return {};
}

Status verifyString(const std::string &text, const char *what) {
  // plan_c3
  if (text.size() > kMaxString || !isValidUtf8(text))
    return violation(467, "plan_c3", std::string(what) + " is longer than 64 KiB or not UTF-8", text.substr(0, 200));
  return {};
}

Status verifyStrings(const planpb::Plan &plan) {
  for (const std::string &text : plan.strings())
    ZC_RETURN_IF_ERROR(verifyString(text, "a name"));
  for (const planpb::Slice &slice : plan.slices())
    ZC_RETURN_IF_ERROR(verifyString(slice.name(), "the name of a slice"));
  for (const planpb::Input &input : plan.inputs())
    ZC_RETURN_IF_ERROR(verifyString(input.name(), "the name of an input"));
  for (const planpb::Output &output : plan.outputs())
    ZC_RETURN_IF_ERROR(verifyString(output.name(), "the name of an output"));
  for (const planpb::Parameter &parameter : plan.parameters()) {
    ZC_RETURN_IF_ERROR(verifyString(parameter.name(), "the name of a parameter"));
    ZC_RETURN_IF_ERROR(verifyString(parameter.part().whole(), "the name of a parameter"));
    for (const std::string &name : parameter.tied())
      ZC_RETURN_IF_ERROR(verifyString(name, "the name of a parameter"));
    ZC_RETURN_IF_ERROR(verifyString(parameter.source().file(), "the file of a parameter"));
  }
  ZC_RETURN_IF_ERROR(verifyString(plan.producer(), "the producer"));
  ZC_RETURN_IF_ERROR(verifyString(plan.model().path(), "the path of the model"));
  ZC_RETURN_IF_ERROR(verifyString(plan.model().name(), "the name of the model"));
  return verifyString(plan.optimizer().rule(), "the name of the optimizer");
}

Status verifyType(const planpb::TensorType &type, int index) {
  // type_c1: enums of proto3 are open, any number may stand there
  if (!planpb::Type_IsValid(type.type()))
    return violation(468, "type_c1", "type " + str(index) + " has unknown element type " + std::to_string(type.type()));
  // type_c2: a zero dimension does not excuse an overflow of the others
  if (type.dims_size() > 64)
    return violation(469, "type_c2", "type " + str(index) + " has " + str(type.dims_size()) + " dimensions");
  for (int64_t dim : type.dims())
    if (dim < 0)
      return violation(470, "type_c2", "type " + str(index) + " has dimension " + std::to_string(dim));
  if (!isCountable({static_cast<DType>(type.type()), {type.dims().begin(), type.dims().end()}}))
    return violation(471, "type_c2", "type " + str(index) + " has more than 2^48 bytes");
  return {};
}

Status verifyArenas(const planpb::Plan &plan) {
  bool seen[planpb::Tier_ARRAYSIZE] = {};
  for (const planpb::Arena &arena : plan.arenas()) {
    // arena_c1
    if (!planpb::Tier_IsValid(arena.tier()) || arena.bytes() > kMaxArenaBytes)
      return violation(472, "arena_c1",
                       "arena of tier " + std::to_string(arena.tier()) + " and " + str(arena.bytes()) + " bytes");
    // arena_c2
    if (seen[arena.tier()])
      return violation(473, "arena_c2", "two arenas of tier " + planpb::Tier_Name(arena.tier()));
    seen[arena.tier()] = true;
  }
  if (!plan.has_report())
    return {};
  // plan_c6
  const planpb::TierReport *reports[] = {&plan.report().device(), &plan.report().host(), &plan.report().nvme()};
  for (const planpb::Arena &arena : plan.arenas())
    if (uint64_t peak = reports[arena.tier()]->peak_bytes(); peak != arena.bytes())
      return violation(474, "plan_c6",
                       "the report says " + str(peak) + " bytes, the arena of tier " + planpb::Tier_Name(arena.tier()) +
                           " has " + str(arena.bytes()));
  return {};
}

Status verifySlice(const planpb::Plan &plan, const planpb::Slice &slice) {
  auto fail = [&](int number, const char *label, const std::string &what) {
    return violation(number, label, "slice \"" + slice.name() + "\" " + what, slice.name());
  };
  // slice_c1
  if (!inRange(slice.arena(), plan.arenas_size()))
    return fail(475, "slice_c1",
                "lies in arena " + str(slice.arena()) + " of " + str(static_cast<uint64_t>(plan.arenas_size())));
  if (!planpb::Class_IsValid(slice.klass()))
    return fail(476, "slice_c1", "is of unknown class " + std::to_string(slice.klass()));
  // slice_c2
  planpb::Tier tier = tierOf(plan, slice);
  if (slice.offset() % sliceAlignment(tier) != 0)
    return fail(477, "slice_c2",
                "starts at byte " + str(slice.offset()) + ", not a multiple of " + str(sliceAlignment(tier)));
  // slice_c3, without forming a sum that could wrap
  uint64_t room = plan.arenas(static_cast<int>(slice.arena())).bytes();
  if (slice.bytes() > room || reservedBytes(tier, slice.bytes()) > room ||
      slice.offset() > room - reservedBytes(tier, slice.bytes()))
    return fail(478, "slice_c3",
                "of " + str(slice.bytes()) + " bytes at " + str(slice.offset()) + " leaves its arena of " + str(room));
  return {};
}

/// slice_c4, by a sweep over slices sorted by offset.
Status verifyPersistence(const planpb::Plan &plan) {
  std::vector<int> order;
  for (int i = 0; i < plan.slices_size(); ++i)
    if (plan.slices(i).bytes() > 0)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const planpb::Slice &x = plan.slices(a), &y = plan.slices(b);
    return std::make_pair(x.arena(), x.offset()) < std::make_pair(y.arena(), y.offset());
  });
  const planpb::Slice *furthest = nullptr, *furthestPersistent = nullptr; // of those so far in this arena
  auto endOf = [&](const planpb::Slice *slice) {
    return slice ? slice->offset() + reservedBytes(tierOf(plan, *slice), slice->bytes()) : 0;
  };
  for (int index : order) {
    const planpb::Slice &slice = plan.slices(index);
    if (furthest && furthest->arena() != slice.arena())
      furthest = furthestPersistent = nullptr;
    const planpb::Slice *other = slice.persistent() ? furthest : furthestPersistent;
    if (endOf(other) > slice.offset())
      return violation(479, "slice_c4",
                       "slice \"" + slice.name() + "\" shares bytes with slice \"" + other->name() +
                           "\" and one of them is persistent",
                       slice.name());
    if (endOf(&slice) > endOf(furthest))
      furthest = &slice;
    if (slice.persistent() && endOf(&slice) > endOf(furthestPersistent))
      furthestPersistent = &slice;
  }
  return {};
}

/// metrics_c1
Status verifyMetric(const planpb::Plan &plan, int64_t index, uint64_t bytes, const char *what) {
  if (!inRange(index, plan.slices_size()))
    return violation(480, "metrics_c1", std::string(what) + " slice " + std::to_string(index) + " does not exist");
  const planpb::Slice &slice = plan.slices(static_cast<int>(index));
  if (slice.bytes() < bytes || !slice.persistent())
    return violation(481, "metrics_c1",
                     std::string(what) + " slice \"" + slice.name() + "\" is not persistent or has fewer than " +
                         str(bytes) + " bytes",
                     slice.name());
  if (tierOf(plan, slice) == planpb::NVME)
    return violation(540, "metrics_c1", std::string(what) + " slice \"" + slice.name() + "\" is on the nvme tier",
                     slice.name());
  return {};
}

/// output_c1, output_c3, plan_c7
Status verifyOutputs(const planpb::Plan &plan) {
  int kinds[planpb::OutputKind_ARRAYSIZE] = {};
  for (const planpb::Output &output : plan.outputs()) {
    if (!inRange(output.type(), plan.types_size()) || !planpb::OutputKind_IsValid(output.kind()))
      return violation(548, "output_c1",
                       "output \"" + output.name() + "\" has type " + str(output.type()) + " and kind " +
                           std::to_string(output.kind()),
                       output.name());
    const planpb::TensorType &type = plan.types(static_cast<int>(output.type()));
    bool isFloat = type.type() == planpb::F32 || type.type() == planpb::F64 || type.type() == planpb::BF16 ||
                   type.type() == planpb::F16;
    bool isScalar = bytesOf(type) == static_cast<uint64_t>(sizeOf(static_cast<DType>(type.type())));
    if (output.kind() != planpb::VALUE && (!isFloat || !isScalar || ++kinds[output.kind()] > 1))
      return violation(549, "output_c1",
                       "output \"" + output.name() + "\" is no scalar float, or a second " +
                           planpb::OutputKind_Name(output.kind()),
                       output.name());
    if (output.likelihood() && output.kind() != planpb::LOSS)
      return violation(591, "output_c3",
                       "output \"" + output.name() + "\" is a likelihood, but of kind " +
                           planpb::OutputKind_Name(output.kind()),
                       output.name());
    if (output.by_labels() && !output.likelihood())
      return violation(594, "output_c3", "output \"" + output.name() + "\" is by labels, but no likelihood",
                       output.name());
  }
  bool trains = false;
  for (const planpb::Bucket &bucket : plan.buckets())
    trains |= bucket.trainable();
  if (kinds[planpb::LOSS_WEIGHT] > kinds[planpb::LOSS])
    return violation(550, "output_c1", "a weight is handed over, but no loss");
  if (plan.forward_only()
          ? plan.outputs().empty() || trains || plan.update().steps_size() > 0 || plan.accumulation() != 1
          : plan.outputs().empty() == plan.has_eval())
    return violation(551, "plan_c7",
                     plan.forward_only()
                         ? "a forward-only plan has no outputs, an update, micro-steps or trains"
                         : "a plan that trains has outputs without an evaluation, or one without outputs");
  return {};
}

} // namespace

Status verifyTables(const planpb::Plan &plan) {
  ZC_RETURN_IF_ERROR(verifyHeader(plan));
  ZC_RETURN_IF_ERROR(verifyThreadShares(plan));
  ZC_RETURN_IF_ERROR(verifyStrings(plan));
  for (int i = 0; i < plan.types_size(); ++i)
    ZC_RETURN_IF_ERROR(verifyType(plan.types(i), i));
  ZC_RETURN_IF_ERROR(verifyArenas(plan));
  for (const planpb::Slice &slice : plan.slices())
    ZC_RETURN_IF_ERROR(verifySlice(plan, slice));
  ZC_RETURN_IF_ERROR(verifyPersistence(plan));
  for (const planpb::Input &input : plan.inputs()) {
    if (!inRange(input.type(), plan.types_size())) // input_c1
      return violation(482, "input_c1", "input \"" + input.name() + "\" has type " + str(input.type()), input.name());
    const planpb::IndexRange &range = input.range();
    if (input.has_range() && (range.limit() <= 0 || range.lowest() >= range.limit())) // input_c3
      return violation(571, "input_c3", "input \"" + input.name() + "\" has no element that it may hold", input.name());
  }
  ZC_RETURN_IF_ERROR(verifyOutputs(plan));
  if (plan.forward_only())
    return {};
  ZC_RETURN_IF_ERROR(verifyMetric(plan, plan.metrics().loss_slice(), plan.metrics().weighted() ? 16 : 8, "loss"));
  if (plan.metrics().grad_norm_slice() != -1)
    ZC_RETURN_IF_ERROR(verifyMetric(plan, plan.metrics().grad_norm_slice(), 4, "norm"));
  return {};
}

} // namespace zc::verify
