//===- Report.cpp - bytes per tier and class, traffic per step ----------------------===//

#include "compiler/emit/Report.h"
#include "base/TrafficClass.h"
#include "compiler/emit/Occupancy.h"
#include "compiler/schedule/Timeline.h"
#include "runtime/plan/Collectives.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

using namespace zc;

/// What is in use at the moment of a micro-step when most is.
static ClassBytes mostOf(const planpb::Plan &plan, uint32_t arena) {
  Occupancy occupancy = occupancyOf(plan, plan.micro(), arena);
  int peak = occupancy.peak();
  return peak < 0 ? ClassBytes{} : occupancy.steps[static_cast<size_t>(peak)];
}

/// Is a bucket kept gathered though the stage cuts it?
static bool isResident(const planpb::Plan &plan, const Mesh &mesh, const planpb::Bucket &bucket) {
  return plan.zero_stage() == 3 && cutsOf(bucket, mesh) > 1 && !bucket.parameters_sharded();
}

/// Bytes of what lasts of model state in an arena that hold elements: `used` of each bucket, a W-th of it where it is
/// cut.
static uint64_t elementBytes(const planpb::Plan &plan, const Mesh &mesh, uint32_t arena) {
  // Summed in W-ths of bytes, so that the formula's one division comes last.
  unsigned __int128 bytes = 0;
  const auto world = static_cast<uint64_t>(mesh.worldSize());
  uint64_t cuts = 1; // of the bucket
  auto add = [&](int32_t slice, uint64_t used, uint64_t width, bool cut) {
    if (slice >= 0 && slice < plan.slices_size() && plan.slices(slice).arena() == arena &&
        plan.slices(slice).persistent())
      bytes += static_cast<unsigned __int128>(used) * width * (cut ? world / cuts : world);
  };
  for (const planpb::Bucket &bucket : plan.buckets()) {
    cuts = cutsOf(bucket, mesh);
    auto widthOf = [](planpb::Type type) { return static_cast<uint64_t>(sizeOf(static_cast<DType>(type))); };
    add(bucket.parameter_slice(), bucket.used(), widthOf(bucket.type()),
        bucket.parameters_sharded() || isResident(plan, mesh, bucket));
    add(bucket.gradient_slice(), bucket.used(), widthOf(gradientTypeOf(bucket)), bucket.gradients_sharded());
    for (int32_t slice : {bucket.master_slice(), bucket.moment1_slice(), bucket.moment2_slice()})
      add(slice, bucket.used(), 4, bucket.optimizer_sharded());
  }
  return static_cast<uint64_t>(bytes / world);
}

static planpb::TierReport tierReport(const planpb::Plan &plan, const Mesh &mesh, uint32_t arena) {
  planpb::TierReport tier;
  tier.set_peak_bytes(plan.arenas(static_cast<int>(arena)).bytes());
  for (const planpb::Slice &slice : plan.slices()) {
    if (!slice.persistent() || slice.arena() != arena)
      continue;
    if (slice.klass() == planpb::PARAMETERS)
      tier.set_parameters(tier.parameters() + slice.bytes());
    else if (slice.klass() == planpb::GRADIENTS)
      tier.set_gradients(tier.gradients() + slice.bytes());
    else if (slice.klass() == planpb::OPTIMIZER)
      tier.set_optimizer(tier.optimizer() + slice.bytes());
  }
  // Of parameters kept gathered a rank's share is model state, the rest gathered parameters.
  for (const planpb::Bucket &bucket : plan.buckets())
    if (int32_t s = bucket.parameter_slice(); s >= 0 && s < plan.slices_size() && isResident(plan, mesh, bucket))
      if (const planpb::Slice &slice = plan.slices(s); slice.arena() == arena)
        tier.set_parameters(tier.parameters() - slice.bytes() + slice.bytes() / cutsOf(bucket, mesh));
  tier.set_padding(tier.parameters() + tier.gradients() + tier.optimizer() - elementBytes(plan, mesh, arena));
  // Gradients that do not last count as activations do: at the peak.
  const ClassBytes most = mostOf(plan, arena);
  tier.set_gradients(std::max(tier.gradients(), most[planpb::GRADIENTS]));
  tier.set_activations(most[planpb::ACTIVATIONS]);
  const uint64_t state = tier.parameters() + tier.gradients() + tier.optimizer();
  // All the rest, so that the parts add up to the peak: buffers, gathered parameters, and gaps between slices.
  tier.set_buffers(tier.peak_bytes() - state - tier.activations());
  return tier;
}

static void fillTiers(planpb::Plan &plan, const Budgets &budgets) {
  const Mesh mesh = meshOf(plan);
  planpb::TierReport device, host, nvme;
  for (uint32_t arena = 0; arena < static_cast<uint32_t>(plan.arenas_size()); ++arena) {
    planpb::Tier tier = plan.arenas(static_cast<int>(arena)).tier();
    (tier == planpb::DEVICE ? device : tier == planpb::HOST ? host : nvme) = tierReport(plan, mesh, arena);
  }
  device.set_budget(budgets.device);
  host.set_budget(budgets.host);
  nvme.set_budget(budgets.nvme);
  *plan.mutable_report()->mutable_device() = device;
  *plan.mutable_report()->mutable_host() = host;
  *plan.mutable_report()->mutable_nvme() = nvme;
}

namespace {

/// Adds up what the collectives and the copies between tiers of a section move.
class TrafficCounter {
public:
  explicit TrafficCounter(planpb::Plan &plan)
      : plan(plan), mesh(meshOf(plan)), traffic(*plan.mutable_report()->mutable_traffic()) {}

  void add(const planpb::Section &section, uint64_t times) {
    for (const planpb::Step &step : section.steps()) {
      if (step.operands_size() < 2)
        continue;
      const std::string &kernel = plan.strings(static_cast<int>(step.kernel()));
      if (const PlannedCollective *collective = findCollective(kernel))
        add(step, *collective, times);
      else if (const TierCopy *copy = findTierCopy(kernel))
        addToLink(copy->queue, bytesOf(typeOf(step, 1)) * times);
    }
  }

private:
  const planpb::TensorType &typeOf(const planpb::Step &step, int operand) {
    return plan.types(static_cast<int>(step.operands(operand).type()));
  }

  void add(const planpb::Step &step, const PlannedCollective &collective, uint64_t times) {
    const AxisSet axes = axesOf(step);
    const auto [part, whole] =
        collective.bytes(typeOf(step, 0), typeOf(step, 1), static_cast<uint64_t>(mesh.size(axes)));
    if (mesh.size(axes) > 1 && mesh.size(axes & mesh.dataAxes()) == 1)
      traffic.set_model(traffic.model() + whole * times);
    else if (mesh.worldSize() > 1)
      addToCounter(trafficOf(step), whole * times);
    addSent(axes, part, times);
  }

  TrafficClass trafficOf(const planpb::Step &step) {
    for (const planpb::Attribute &attribute : step.attributes())
      if (plan.strings(static_cast<int>(attribute.name())) == kTrafficAttribute)
        return valueNamed<TrafficClass>(attribute.text()).value_or(TrafficClass::none);
    return TrafficClass::none;
  }

  void addToCounter(TrafficClass kind, uint64_t bytes) {
    switch (kind) {
    case TrafficClass::gather:
      return traffic.set_gather(traffic.gather() + bytes);
    case TrafficClass::reduceScatter:
      return traffic.set_reduce_scatter(traffic.reduce_scatter() + bytes);
    case TrafficClass::allReduce:
      return traffic.set_all_reduce(traffic.all_reduce() + bytes);
    case TrafficClass::none:
    case TrafficClass::hop:
      return;
    }
  }

  void addToLink(planpb::Queue queue, uint64_t bytes) {
    if (queue == planpb::H2D)
      traffic.set_h2d(traffic.h2d() + bytes);
    else if (queue == planpb::D2H)
      traffic.set_d2h(traffic.d2h() + bytes);
    else if (queue == planpb::NVME_READ)
      traffic.set_nvme_read(traffic.nvme_read() + bytes);
    else if (queue == planpb::NVME_WRITE)
      traffic.set_nvme_write(traffic.nvme_write() + bytes);
  }

  /// Each rank sends `part` to every other member of its group.
  void addSent(AxisSet axes, uint64_t part, uint64_t times) {
    auto near = static_cast<uint64_t>(mesh.sizeOnNode(axes) - 1);
    uint64_t far = static_cast<uint64_t>(mesh.size(axes)) - 1 - near;
    traffic.set_intra_node(traffic.intra_node() + part * near * times);
    traffic.set_inter_node(traffic.inter_node() + part * far * times);
  }

  planpb::Plan &plan;
  const Mesh mesh;
  planpb::Traffic &traffic;
};

} // namespace

void zc::fillReport(planpb::Plan &plan, const Budgets &budgets) {
  fillTiers(plan, budgets);
  *plan.mutable_report()->mutable_traffic() = {};
  TrafficCounter counter(plan);
  counter.add(plan.micro(), microExecutions(plan));
  counter.add(plan.update(), 1);
  plan.mutable_report()->set_predicted_step_seconds(playTimeline(plan).secondsPerStep);
}
