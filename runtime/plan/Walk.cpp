#include "runtime/plan/Walk.h"

#include "runtime/plan/Evaluation.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Tiers.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace zc {

uint64_t bytesOf(const planpb::TensorType &type) {
  uint64_t bytes = static_cast<uint64_t>(sizeOf(static_cast<DType>(type.type())));
  for (int64_t dim : type.dims())
    bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

PlanWalk::PlanWalk(const planpb::Plan &plan, bool ordinary)
    : plan(plan), accumulation(walkAccumulation(microExecutions(plan))) {
  for (uint32_t index : walkOrder(microExecutions(plan))) {
    auto execution = static_cast<uint32_t>(executions[index].size());
    executions[index].push_back(numSteps);
    addPart(index, execution, ordinary && index == 1 ? Turn::others : Turn::all);
    if (ordinary && index == 1)
      addPart(index, execution, Turn::publishing);
  }
  for (uint32_t index : {0u, 1u}) {
    for (int i = 0; i < sectionOf(plan, index).steps_size(); ++i) {
      std::vector<uint32_t> &steps = stepsOfQueue[index][sectionOf(plan, index).steps(i).queue()];
      ordinals[index].push_back(static_cast<uint32_t>(steps.size()));
      steps.push_back(static_cast<uint32_t>(i));
    }
  }
}

void PlanWalk::addPart(uint32_t index, uint32_t execution, Turn turn) {
  parts.push_back({index, execution, turn, numSteps});
  numSteps += static_cast<uint32_t>(sectionOf(plan, index).steps_size());
}

void PlanWalk::applyWaits(HazardTracker &tracker, const planpb::Step &step, const Part &part) const {
  for (const planpb::Wait &wait : step.waits()) {
    int64_t execution = waitedExecution(part.section, part.execution, wait.section(), wait.distance(), accumulation);
    if (execution >= 0)
      tracker.wait(executions[wait.section()][static_cast<size_t>(execution)] +
                   stepsOfQueue[wait.section()][wait.queue()][wait.ordinal()]);
  }
}

namespace {

/// Numbers of the ways in which operands depend on the rank.
class Patterns {
public:
  explicit Patterns(const Mesh &mesh) : mesh(mesh) {}

  uint32_t of(const planpb::Operand &operand, uint64_t bytes) {
    std::vector<uint64_t> way = {operand.slice(), bytes, operand.offset()};
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
      way.push_back(strideOf(operand, mesh, axis));
    auto [known, isNew] = numbers.try_emplace(std::move(way), static_cast<uint32_t>(numbers.size() + 1));
    if (isNew)
      ways.push_back(&known->first);
    return known->second;
  }

  /// Are the bytes of way `inner` on each rank among those of `outer`? By how far apart both begin at the most.
  bool covers(uint32_t outer, uint32_t inner) const {
    const std::vector<uint64_t> &a = *ways[outer - 1], &b = *ways[inner - 1];
    if (a[kSlice] != b[kSlice])
      return false;
    __int128 least = __int128(b[kOffset]) - a[kOffset], most = least;
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
      const __int128 apart = (__int128(b[kStrides + axis]) - a[kStrides + axis]) * (mesh.axes()[axis].size - 1);
      (apart < 0 ? least : most) += apart;
    }
    return least >= 0 && most + b[kBytes] <= a[kBytes];
  }

private:
  enum { kSlice, kBytes, kOffset, kStrides }; ///< a stride for each axis
  const Mesh &mesh;
  std::map<std::vector<uint64_t>, uint32_t> numbers;
  std::vector<const std::vector<uint64_t> *> ways; ///< by number, from 1 on
};

} // namespace

Status PlanWalk::run(const Visit &visit, uint64_t workLimit) {
  const Mesh mesh = meshOf(plan);
  Patterns patterns(mesh);
  HazardTracker tracker(static_cast<size_t>(plan.arenas_size()),
                        [&](uint32_t outer, uint32_t inner) { return patterns.covers(outer, inner); });
  std::vector<uint64_t> typeBytes;
  for (const planpb::TensorType &type : plan.types())
    typeBytes.push_back(bytesOf(type));
  for (const Part &part : parts) {
    const planpb::Section &steps = sectionOf(plan, part.section);
    for (int i = 0; i < steps.steps_size(); ++i) {
      const planpb::Step &step = steps.steps(i);
      bool isDue = part.turn == Turn::all || step.publishes() == (part.turn == Turn::publishing);
      if (part.turn == Turn::publishing)
        tracker.drain();
      tracker.begin(step.queue());
      applyWaits(tracker, step, part);
      auto touch = [&](const planpb::Operand &operand, bool isKnown = true) {
        const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
        uint64_t furthest = furthestOffset(operand, mesh);
        uint64_t begin = slice.offset() + operand.offset(), end = slice.offset() + furthest + typeBytes[operand.type()];
        uint32_t pattern = furthest == operand.offset() ? 0 : patterns.of(operand, typeBytes[operand.type()]);
        bool reads = isKnown && operand.access() != planpb::WRITE, writes = operand.access() != planpb::READ;
        tracker.touch({slice.arena(), begin, end, operand.slice(), reads, writes, !slice.persistent(), pattern});
        // What stands in the rest of the last block does not matter, but it is moved as well.
        if (movesBlocks(step.queue()))
          tracker.touch({slice.arena(), end, toBlocks(end), operand.slice(), reads, writes, false, pattern});
      };
      if (isDue)
        forOperands(step, [&](const planpb::Operand &operand) { touch(operand); });
      if (isDue && step.has_kept())
        touch(step.kept().place(), part.execution % accumulation > 0);
      ZC_RETURN_IF_ERROR(visit({part.section, part.execution, static_cast<uint32_t>(i)}, tracker.finish()));
      if (tracker.work() > workLimit)
        return makeError(Code::corrupt, 450, "plan is too entangled to be checked");
    }
    if (part.turn == Turn::publishing)
      tracker.drain();
  }
  return {};
}

WalkStep PlanWalk::locate(HazardTracker::StepId id) const {
  auto after = std::upper_bound(parts.begin(), parts.end(), id,
                                [](HazardTracker::StepId step, const Part &part) { return step < part.first; });
  const Part &part = *std::prev(after);
  return {part.section, part.execution, id - part.first};
}

planpb::Wait PlanWalk::waitFor(const WalkStep &here, HazardTracker::StepId earlier) const {
  WalkStep there = locate(earlier);
  int64_t from = here.execution; // the execution that distance 0 means
  if (here.section == 1 && there.section == 0)
    from = (from + 1) * accumulation - 1;
  else if (here.section == 0 && there.section == 1)
    from = from / accumulation;
  planpb::Wait wait;
  wait.set_section(there.section);
  wait.set_queue(sectionOf(plan, there.section).steps(static_cast<int>(there.index)).queue());
  wait.set_ordinal(ordinals[there.section][there.index]);
  wait.set_distance(static_cast<uint32_t>(from - there.execution));
  return wait;
}

const planpb::Step &stepOf(const planpb::Plan &plan, const WalkStep &step) {
  return sectionOf(plan, step.section).steps(static_cast<int>(step.index));
}

Error locate(Error error, const planpb::Plan &plan, uint32_t section, uint32_t index) {
  if (error.where.empty()) {
    const planpb::Step &step = stepOf(plan, {section, 0, index});
    error.where = plan.model().name() + ": node \"" + plan.strings(static_cast<int>(step.node())) + "\"";
  }
  return error;
}

const planpb::Attribute *findAttribute(const planpb::Plan &plan, const planpb::Step &step, const char *name) {
  for (const planpb::Attribute &attribute : step.attributes())
    if (plan.strings(int(attribute.name())) == name)
      return &attribute;
  return nullptr;
}

std::string typeText(const planpb::Plan &plan, uint32_t type) {
  const planpb::TensorType &tensor = plan.types(static_cast<int>(type));
  std::string text;
  for (int64_t dim : tensor.dims())
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  std::string name = planpb::Type_Name(tensor.type());
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name + "[" + text + "]";
}

std::string operandTypes(const planpb::Plan &plan, const planpb::Step &step) {
  std::string text;
  for (int i = 0; i < step.operands_size(); ++i) {
    text += i == 0 ? "" : i == static_cast<int>(step.inputs()) ? " -> " : ", ";
    text += typeText(plan, step.operands(i).type());
  }
  return text;
}

std::string describe(const planpb::Plan &plan, const WalkStep &step) {
  const planpb::Step &message = stepOf(plan, step);
  return std::string(step.section == 0 ? "micro" : "update") + " step " + std::to_string(step.index) + " \"" +
         plan.strings(static_cast<int>(message.kernel())) + "\" on queue " + planpb::Queue_Name(message.queue()) +
         " (node \"" + plan.strings(static_cast<int>(message.node())) + "\")";
}

Error staleReadError(const planpb::Plan &plan, const PlanWalk &walk, const WalkStep &here,
                     const HazardTracker::StaleRead &stale, Code code) {
  const std::string &slice = plan.slices(static_cast<int>(stale.slice)).name();
  Error error = makeError(code, 451, describe(plan, here) + " reads slice \"" + slice + "\" before it is written",
                          plan.strings(static_cast<int>(stepOf(plan, here).node())));
  error.note = "violates walk_c2";
  if (stale.writer != HazardTracker::kNoStep && stale.writerSlice != stale.slice) {
    error.number = 452;
    error.message = describe(plan, here) + " reads slice \"" + slice + "\" after slice \"" +
                    plan.slices(static_cast<int>(stale.writerSlice)).name() + "\" took its bytes";
    error.note += ": the last writer is " + describe(plan, walk.locate(stale.writer));
  }
  return error;
}

/// Of the evaluation, which is ordered by itself.
static Status addWaitsOfEvaluation(planpb::Plan &plan) {
  planpb::Plan own = evaluationOf(plan);
  ZC_RETURN_IF_ERROR(addWaits(own));
  plan.mutable_eval()->Swap(own.mutable_micro());
  for (planpb::Step &step : *plan.mutable_eval()->mutable_steps())
    for (planpb::Wait &wait : *step.mutable_waits())
      wait.set_section(kEvalSection);
  return {};
}

Status addWaits(planpb::Plan &plan) {
  if (plan.has_eval())
    ZC_RETURN_IF_ERROR(addWaitsOfEvaluation(plan));
  PlanWalk walk(plan);
  return walk.run([&](const WalkStep &here, const HazardTracker::Findings &findings) -> Status {
    if (!findings.stale.empty())
      return staleReadError(plan, walk, here, findings.stale.front(), Code::internal);
    planpb::Section &section = here.section == 0 ? *plan.mutable_micro() : *plan.mutable_update();
    for (const HazardTracker::Dependence &dependence : findings.missing)
      *section.mutable_steps(static_cast<int>(here.index))->add_waits() = walk.waitFor(here, dependence.step);
    return {};
  });
}

} // namespace zc
