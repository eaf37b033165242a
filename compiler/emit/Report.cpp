//===- Report.cpp - bytes per tier and class, traffic per step ----------------------===//

#include "compiler/emit/Report.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <vector>

using namespace zc;

namespace {

/// Bytes of transient slices alive at the moment when most are, by class.
struct TransientPeak {
  uint64_t activations = 0, buffers = 0;
};

struct Extent {
  int64_t first = -1, last = -1;
};

} // namespace

static std::vector<Extent> extentsOf(const planpb::Plan &plan, const planpb::Section &section) {
  std::vector<Extent> extents(static_cast<size_t>(plan.slices_size()));
  for (int i = 0; i < section.steps_size(); ++i)
    for (const planpb::Operand &operand : section.steps(i).operands()) {
      Extent &extent = extents[operand.slice()];
      extent.first = extent.first < 0 ? i : extent.first;
      extent.last = i;
    }
  return extents;
}

static TransientPeak transientPeak(const planpb::Plan &plan, const planpb::Section &section) {
  std::vector<Extent> extents = extentsOf(plan, section);
  std::vector<std::vector<uint32_t>> enter(static_cast<size_t>(section.steps_size()) + 1), leave(enter);
  for (uint32_t s = 0; s < extents.size(); ++s)
    if (extents[s].first >= 0 && !plan.slices(static_cast<int>(s)).persistent()) {
      enter[static_cast<size_t>(extents[s].first)].push_back(s);
      leave[static_cast<size_t>(extents[s].last) + 1].push_back(s);
    }
  TransientPeak now, most;
  auto add = [&](uint32_t s, bool enters) {
    const planpb::Slice &slice = plan.slices(static_cast<int>(s));
    uint64_t &sum = slice.klass() == planpb::ACTIVATIONS ? now.activations : now.buffers;
    sum += enters ? slice.bytes() : -slice.bytes();
  };
  for (size_t position = 0; position < enter.size(); ++position) {
    for (uint32_t s : leave[position])
      add(s, false);
    for (uint32_t s : enter[position])
      add(s, true);
    if (now.activations + now.buffers > most.activations + most.buffers)
      most = now;
  }
  return most;
}

/// Bytes of model state that hold elements: `used` of each bucket, a W-th of it where it is cut.
static uint64_t elementBytes(const planpb::Plan &plan) {
  // Summed in W-ths of bytes, so that the formula's one division comes last.
  unsigned __int128 bytes = 0;
  const uint64_t world = std::max<uint64_t>(1, plan.world_size()); // 0 is for verifyPlan to refuse
  auto add = [&](int32_t slice, uint64_t used, uint64_t width, bool cut) {
    if (slice >= 0)
      bytes += static_cast<unsigned __int128>(used) * width * (cut ? 1 : world);
  };
  for (const planpb::Bucket &bucket : plan.buckets()) {
    uint64_t width = bucket.type() == planpb::F32 ? 4 : bucket.type() == planpb::F64 ? 8 : 2;
    add(bucket.parameter_slice(), bucket.used(), width, bucket.parameters_sharded());
    add(bucket.gradient_slice(), bucket.used(), width, bucket.gradients_sharded());
    for (int32_t slice : {bucket.master_slice(), bucket.moment1_slice(), bucket.moment2_slice()})
      add(slice, bucket.used(), 4, bucket.optimizer_sharded());
  }
  return static_cast<uint64_t>(bytes / world);
}

static void fillDevice(planpb::Plan &plan, uint64_t budget) {
  auto *device = plan.mutable_report()->mutable_device();
  *device = {};
  for (const planpb::Arena &arena : plan.arenas())
    device->set_peak_bytes(device->peak_bytes() + arena.bytes());
  uint64_t buffers = 0;
  for (const planpb::Slice &slice : plan.slices()) {
    if (!slice.persistent())
      continue;
    if (slice.klass() == planpb::PARAMETERS)
      device->set_parameters(device->parameters() + slice.bytes());
    else if (slice.klass() == planpb::GRADIENTS)
      device->set_gradients(device->gradients() + slice.bytes());
    else if (slice.klass() == planpb::OPTIMIZER)
      device->set_optimizer(device->optimizer() + slice.bytes());
    else
      buffers += slice.bytes();
  }
  uint64_t state = device->parameters() + device->gradients() + device->optimizer();
  device->set_padding(state - elementBytes(plan));
  TransientPeak peak = transientPeak(plan, plan.micro());
  device->set_activations(peak.activations);
  // All the rest, so that the parts add up to the peak: buffers, gathered parameters, and gaps between slices.
  device->set_buffers(device->peak_bytes() - state - peak.activations);
  device->set_budget(budget);
}

namespace {

/// Adds up what the collectives of a section move.
class TrafficCounter {
public:
  explicit TrafficCounter(planpb::Plan &plan) : plan(plan), traffic(*plan.mutable_report()->mutable_traffic()) {}

  void add(const planpb::Section &section, uint64_t times) {
    for (const planpb::Step &step : section.steps()) {
      if (step.operands_size() < 2)
        continue;
      const std::string &kernel = plan.strings(static_cast<int>(step.kernel()));
      if (kernel == "all_gather")
        add(step, bytesOf(step, 0), bytesOf(step, 1), times);
      else if (kernel == "reduce_scatter")
        add(step, bytesOf(step, 1), bytesOf(step, 0), times);
    }
  }

private:
  uint64_t bytesOf(const planpb::Step &step, int operand) {
    return zc::bytesOf(plan.types(static_cast<int>(step.operands(operand).type())));
  }

  void add(const planpb::Step &step, uint64_t shard, uint64_t full, uint64_t times) {
    if (plan.world_size() > 1)
      addToCounter(counterOf(step), full * times);
    addSent(shard, times);
  }

  std::string counterOf(const planpb::Step &step) {
    for (const planpb::Attribute &attribute : step.attributes())
      if (plan.strings(static_cast<int>(attribute.name())) == "traffic")
        return attribute.text();
    return "none";
  }

  void addToCounter(const std::string &counter, uint64_t bytes) {
    if (counter == "gather")
      traffic.set_gather(traffic.gather() + bytes);
    else if (counter == "reduce_scatter")
      traffic.set_reduce_scatter(traffic.reduce_scatter() + bytes);
    else if (counter == "all_reduce")
      traffic.set_all_reduce(traffic.all_reduce() + bytes);
  }

  /// Each rank sends `part` to every other rank.
  void addSent(uint64_t part, uint64_t times) {
    traffic.set_intra_node(traffic.intra_node() + part * (plan.ranks_per_node() - 1) * times);
    traffic.set_inter_node(traffic.inter_node() + part * (plan.world_size() - plan.ranks_per_node()) * times);
  }

  planpb::Plan &plan;
  planpb::Traffic &traffic;
};

} // namespace

void zc::fillReport(planpb::Plan &plan, uint64_t deviceBudget) {
  fillDevice(plan, deviceBudget);
  *plan.mutable_report()->mutable_traffic() = {};
  TrafficCounter counter(plan);
  counter.add(plan.micro(), plan.accumulation());
  counter.add(plan.update(), 1);
}
