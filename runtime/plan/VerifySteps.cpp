#include "base/StridedView.h"
#include "base/Tensor.h"
#include "runtime/plan/Collectives.h"
#include "runtime/plan/Hazards.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/StepNames.h"
#include "runtime/plan/Tiers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace zc::verify {

namespace {

constexpr uint32_t kMaxDistance = 1u << 20;
constexpr int kMaxOperands = 4096;
constexpr int kMaxAttributes = 256; // pairs are compared

/// Tiers that steps of a queue may touch, as bits.
constexpr unsigned kReach[kNumQueues] = {
    1u << planpb::DEVICE,                      // COMPUTE
    1u << planpb::DEVICE | 1u << planpb::HOST, // COMM
    1u << planpb::DEVICE | 1u << planpb::HOST, // H2D
    1u << planpb::DEVICE | 1u << planpb::HOST, // D2H
    1u << planpb::HOST | 1u << planpb::NVME,   // NVME_READ
    1u << planpb::HOST | 1u << planpb::NVME,   // NVME_WRITE
    1u << planpb::HOST,                        // HOST_COMPUTE
};

class StepVerifier {
public:
  StepVerifier(const planpb::Plan &plan, uint32_t section, AliasFinder &aliases)
      : plan(plan), mesh(meshOf(plan)), section(section), steps(sectionOf(plan, section)), aliases(aliases) {
    for (const planpb::TensorType &type : plan.types())
      typeBytes.push_back(bytesOf(type));
    for (uint32_t s : {0u, 1u})
      for (const planpb::Step &step : sectionOf(plan, s).steps())
        if (planpb::Queue_IsValid(step.queue()))
          ++queueTotals[s][static_cast<size_t>(step.queue())];
  }

  Status run() {
    for (index = 0; index < static_cast<uint32_t>(steps.steps_size()); ++index) {
      const planpb::Step &step = steps.steps(static_cast<int>(index));
      ZC_RETURN_IF_ERROR(verifyNames(step));
      ZC_RETURN_IF_ERROR(verifyOperands(step));
      ZC_RETURN_IF_ERROR(verifyViews(step));
      ZC_RETURN_IF_ERROR(verifyTiers(step));
      ZC_RETURN_IF_ERROR(verifyWaits(step));
      if (const PlannedCollective *collective = findCollective(view(step).kernel()))
        ZC_RETURN_IF_ERROR(collective->verify(view(step)));
      auto special = kSpecial.find(plan.strings(static_cast<int>(step.kernel())));
      if (special != kSpecial.end())
        ZC_RETURN_IF_ERROR((this->*special->second)(step));
      ZC_RETURN_IF_ERROR(verifyAliases(step));
      if (step.has_workspace())
        ZC_RETURN_IF_ERROR(verifyWorkspace(step));
      if (step.has_kept())
        ZC_RETURN_IF_ERROR(verifyKept(step));
      ++queueCounts[static_cast<size_t>(step.queue())];
    }
    return section == 0 ? verifyUnchanged() : Status();
  }

private:
  using Check = Status (StepVerifier::*)(const planpb::Step &);
  static const std::map<std::string, Check> kSpecial;

  Error fail(int number, const char *label, const std::string &what) const {
    const planpb::Step &step = steps.steps(static_cast<int>(index));
    if (!inRange(step.kernel(), plan.strings_size()) || !inRange(step.node(), plan.strings_size()))
      return violation(number, label,
                       std::string(section == 0 ? "micro" : "update") + " step " + str(index) + " " + what);
    return view(step).fail(number, label, what);
  }

  StepView view(const planpb::Step &step) const { return {plan, mesh, section, index, step}; }
  const planpb::TensorType &typeOf(const planpb::Operand &operand) const {
    return plan.types(static_cast<int>(operand.type()));
  }
  uint64_t bytes(const planpb::Operand &operand) const { return typeBytes[operand.type()]; }

  Status verifyNames(const planpb::Step &step);
  Status verifyOperands(const planpb::Step &step);
  Status verifyOperand(const planpb::Operand &operand, int position, bool isInput);
  Status verifyViews(const planpb::Step &step);
  Status verifyAliases(const planpb::Step &step);
  const planpb::Slice *sharing(const planpb::Step &step, const planpb::Slice &slice) const;
  bool isScratch(const planpb::Step &step, const planpb::Operand &operand) const;
  Status verifyWorkspace(const planpb::Step &step);
  Status verifyKept(const planpb::Step &step);
  Status verifyUnchanged();
  Status verifyWaits(const planpb::Step &step);
  Status verifyTiers(const planpb::Step &step);
  Status verifyTierCopy(const planpb::Step &step);
  Status verifyBlocks(const planpb::Operand &operand, int position);
  std::string addressOf(const planpb::Operand &operand) const;
  bool isMultiple(const planpb::Operand &operand, uint64_t bytes) const;
  Status verifyLoadInput(const planpb::Step &step);
  Status verifyStoreOutput(const planpb::Step &step);

  const planpb::Plan &plan;
  const Mesh mesh;
  uint32_t section;
  const planpb::Section &steps;
  uint32_t index = 0;
  std::vector<uint64_t> typeBytes;
  AliasFinder &aliases;
  std::array<uint32_t, kNumQueues> queueTotals[2] = {{}, {}};
  std::array<uint32_t, kNumQueues> queueCounts{}; // steps of this section before the current one
};

const std::map<std::string, StepVerifier::Check> StepVerifier::kSpecial = {
    {kLoadInput, &StepVerifier::verifyLoadInput}, {kStoreOutput, &StepVerifier::verifyStoreOutput},
    {"h2d", &StepVerifier::verifyTierCopy},       {"d2h", &StepVerifier::verifyTierCopy},
    {"nvme_read", &StepVerifier::verifyTierCopy}, {"nvme_write", &StepVerifier::verifyTierCopy},
};

Status StepVerifier::verifyNames(const planpb::Step &step) {
  // step_c1
  if (!inRange(step.kernel(), plan.strings_size()) || !inRange(step.node(), plan.strings_size()))
    return fail(501, "step_c1",
                "has kernel " + str(step.kernel()) + " and node " + str(step.node()) + " of " +
                    str(static_cast<uint64_t>(plan.strings_size())) + " strings");
  if (!planpb::Queue_IsValid(step.queue()))
    return fail(502, "step_c1", "is on unknown queue " + std::to_string(step.queue()));
  // step_c4
  if (step.operands_size() > kMaxOperands || step.attributes_size() > kMaxAttributes)
    return fail(525, "step_c4",
                "has " + str(static_cast<uint64_t>(step.operands_size())) + " operands and " +
                    str(static_cast<uint64_t>(step.attributes_size())) + " attributes");
  // step_c7
  if (!areAxes(plan, step.axes()))
    return fail(526, "step_c7", "runs along what are no axes of the mesh, in its order");
  // step_c5
  if (!std::isfinite(step.seconds()) || step.seconds() < 0)
    return fail(529, "step_c5", "lasts " + std::to_string(step.seconds()) + " seconds");
  if (!std::isfinite(step.flops()) || step.flops() < 0)
    return fail(598, "step_c5", "computes " + std::to_string(step.flops()) + " operations");
  if (step.bytes() >= uint64_t(1) << 62)
    return fail(593, "step_c5", "moves " + str(step.bytes()) + " bytes");
  // step_c3
  for (int i = 0; i < step.attributes_size(); ++i) {
    const planpb::Attribute &attribute = step.attributes(i);
    if (!inRange(attribute.name(), plan.strings_size()) || !isValidUtf8(attribute.text()))
      return fail(503, "step_c3", "has an attribute whose name or text is no string");
    for (int j = 0; j < i; ++j)
      if (step.attributes(j).name() == attribute.name())
        return fail(504, "step_c3", "has attribute \"" + plan.strings(static_cast<int>(attribute.name())) + "\" twice");
    // step_c6
    bool isMicro = plan.strings(static_cast<int>(attribute.name())) == "micro";
    if (isMicro && (!plan.vertical() || attribute.value_case() != planpb::Attribute::kInteger ||
                    !inRange(attribute.integer(), static_cast<int>(plan.accumulation()))))
      return fail(558, "step_c6", "is of a micro-step that there is not");
  }
  return {};
}

/// "64 + local * 256", for messages.
std::string StepVerifier::addressOf(const planpb::Operand &operand) const {
  std::string text = str(operand.offset());
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    if (uint64_t stride = strideOf(operand, mesh, axis))
      text += " + " + mesh.axes()[axis].name + " * " + str(stride);
  return text;
}

/// On every rank.
bool StepVerifier::isMultiple(const planpb::Operand &operand, uint64_t bytes) const {
  bool multiple = operand.offset() % bytes == 0;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    multiple &= strideOf(operand, mesh, axis) % bytes == 0;
  return multiple;
}

Status StepVerifier::verifyOperand(const planpb::Operand &operand, int position, bool isInput) {
  std::string who = "operand " + std::to_string(position);
  // operand_c1
  if (!inRange(operand.slice(), plan.slices_size()) || !inRange(operand.type(), plan.types_size()) ||
      !planpb::Access_IsValid(operand.access()) || operand.strides_size() > plan.mesh_size())
    return fail(505, "operand_c1",
                "has " + who + " with slice " + str(operand.slice()) + ", type " + str(operand.type()) + ", access " +
                    std::to_string(operand.access()) + ", " + str(static_cast<uint64_t>(operand.strides_size())) +
                    " strides");
  // step_c2
  if (isInput != (operand.access() == planpb::READ))
    return fail(506, "step_c2",
                "has " + who + " which is " + (isInput ? "an input" : "an output") + " and " +
                    planpb::Access_Name(operand.access()));
  // operand_c2: the end on the last coordinate of each axis, no sum of which may wrap
  const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
  uint64_t end = operand.offset(), along = 0;
  bool wraps = __builtin_add_overflow(end, bytes(operand), &end);
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    wraps |= __builtin_mul_overflow(strideOf(operand, mesh, axis), uint64_t(mesh.axes()[axis].size - 1), &along) ||
             __builtin_add_overflow(end, along, &end);
  if (wraps || end > slice.bytes())
    return fail(507, "operand_c2",
                "has " + who + " of " + str(bytes(operand)) + " bytes at " + addressOf(operand) + ", slice \"" +
                    slice.name() + "\" has " + str(slice.bytes()));
  // operand_c3
  uint64_t size = static_cast<uint64_t>(sizeOf(static_cast<DType>(typeOf(operand).type())));
  if (!isMultiple(operand, size))
    return fail(508, "operand_c3",
                "has " + who + " at " + addressOf(operand) + ", its elements have " + str(size) + " bytes");
  return {};
}

Status StepVerifier::verifyOperands(const planpb::Step &step) {
  if (step.inputs() > static_cast<uint32_t>(step.operands_size()))
    return fail(509, "step_c2",
                "has " + str(step.inputs()) + " inputs among " + str(static_cast<uint64_t>(step.operands_size())) +
                    " operands");
  for (int i = 0; i < step.operands_size(); ++i)
    ZC_RETURN_IF_ERROR(verifyOperand(step.operands(i), i, static_cast<uint32_t>(i) < step.inputs()));
  return {};
}

/// view_c1 to view_c4: what is inside an operand is so on every rank, since the operand is.
Status StepVerifier::verifyViews(const planpb::Step &step) {
  for (const planpb::Attribute &attribute : step.attributes()) {
    if (plan.strings(static_cast<int>(attribute.name())) != "views")
      continue;
    const auto &words = attribute.integers();
    auto views = decodeViews({words.begin(), words.end()});
    if (attribute.value_case() != planpb::Attribute::VALUE_NOT_SET || !views)
      return fail(569, "view_c1", "has an attribute \"views\" that is no list of views");
    std::vector<int64_t> elements;
    for (const planpb::Operand &operand : step.operands())
      elements.push_back(static_cast<int64_t>(bytes(operand)) / sizeOf(static_cast<DType>(typeOf(operand).type())));
    if (auto problem = findProblem(*views, elements, step.inputs()))
      return fail(570, problem->label, "has views that it cannot have: " + problem->what);
  }
  return {};
}

Status StepVerifier::verifyTiers(const planpb::Step &step) {
  // tier_c1
  for (int i = 0; i < step.operands_size(); ++i) {
    planpb::Tier tier = tierOf(plan, step.operands(i).slice());
    if ((kReach[step.queue()] >> tier & 1) == 0)
      return fail(542, "tier_c1",
                  "has operand " + std::to_string(i) + " on tier " + planpb::Tier_Name(tier) +
                      ", which its queue does not reach");
  }
  // tier_c2
  const std::string &kernel = plan.strings(static_cast<int>(step.kernel()));
  bool isCopyQueue =
      step.queue() != planpb::COMPUTE && step.queue() != planpb::COMM && step.queue() != planpb::HOST_COMPUTE;
  bool isInput = step.queue() == planpb::H2D && kernel == kLoadInput;
  if (isCopyQueue && !isInput && !findTierCopy(kernel))
    return fail(543, "tier_c2", "is on a queue that only copies between tiers");
  return {};
}

/// copy_c3
Status StepVerifier::verifyBlocks(const planpb::Operand &operand, int position) {
  const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
  bool starts = isMultiple(operand, kBlockBytes), isFixed = furthestOffset(operand, mesh) == operand.offset();
  // On the host the rest of the last block is room that the slice has; in the file it would be a neighbour's bytes, and
  // of what is read into state the state behind it.
  bool isState = slice.persistent() && operand.access() != planpb::READ;
  bool ends = (tierOf(plan, operand.slice()) != planpb::NVME && !isState) || bytes(operand) % kBlockBytes == 0 ||
              (isFixed && operand.offset() + bytes(operand) == slice.bytes());
  if (starts && ends)
    return {};
  return fail(544, "copy_c3",
              "has operand " + std::to_string(position) + " of " + str(bytes(operand)) + " bytes at " +
                  addressOf(operand) + " of slice \"" + slice.name() + "\" of " + str(slice.bytes()) +
                  " bytes, which are not whole blocks of 4096");
}

Status StepVerifier::verifyTierCopy(const planpb::Step &step) {
  const TierCopy &copy = *findTierCopy(plan.strings(static_cast<int>(step.kernel())));
  // copy_c1
  if (step.queue() != copy.queue || step.inputs() != 1 || step.operands_size() != 2 ||
      step.operands(1).access() != planpb::WRITE)
    return fail(545, "copy_c1", "is no copy of one input to one output on queue " + planpb::Queue_Name(copy.queue));
  // copy_c2
  planpb::Tier from = tierOf(plan, step.operands(0).slice()), to = tierOf(plan, step.operands(1).slice());
  if (from != copy.from || to != copy.to || bytes(step.operands(0)) != bytes(step.operands(1)))
    return fail(546, "copy_c2",
                "copies " + str(bytes(step.operands(0))) + " bytes on tier " + planpb::Tier_Name(from) + " to " +
                    str(bytes(step.operands(1))) + " on tier " + planpb::Tier_Name(to));
  if (movesBlocks(step.queue()))
    for (int i : {0, 1})
      ZC_RETURN_IF_ERROR(verifyBlocks(step.operands(i), i));
  return {};
}

/// operand_c4
Status StepVerifier::verifyAliases(const planpb::Step &step) {
  const PlannedCollective *collective = findCollective(view(step).kernel());
  Sharing sharing = collective ? collective->sharing : Sharing::whole;
  // A sum of another width would run into what is yet to be read.
  if (collective && typeOf(step.operands(0)).type() != typeOf(*step.operands().rbegin()).type())
    sharing = Sharing::none;
  auto found = aliases.find(step, sharing);
  if (found.tooMany)
    return fail(563, "step_c4", "has too many operands that reach across each other to be checked");
  if (!found.alias)
    return {};
  return fail(510, "operand_c4",
              "writes operand " + std::to_string(found.alias->written) + " over a part of operand " +
                  std::to_string(found.alias->other) + " on rank " + std::to_string(found.alias->rank));
}

bool shareBytes(const planpb::Slice &a, const planpb::Slice &b) {
  return a.arena() == b.arena() && a.offset() < b.offset() + b.bytes() && b.offset() < a.offset() + a.bytes();
}

/// An operand's slice that shares bytes with `slice`; null: there is none.
const planpb::Slice *StepVerifier::sharing(const planpb::Step &step, const planpb::Slice &slice) const {
  for (const planpb::Operand &operand : step.operands()) {
    const planpb::Slice &other = plan.slices(static_cast<int>(operand.slice()));
    if (shareBytes(slice, other))
      return &other;
  }
  return nullptr;
}

/// Transient bytes that the step's queue reaches.
bool StepVerifier::isScratch(const planpb::Step &step, const planpb::Operand &operand) const {
  return typeOf(operand).type() == planpb::U8 && !plan.slices(static_cast<int>(operand.slice())).persistent() &&
         (kReach[step.queue()] >> tierOf(plan, operand.slice()) & 1) != 0;
}

Status StepVerifier::verifyWorkspace(const planpb::Step &step) {
  const planpb::Operand &workspace = step.workspace();
  ZC_RETURN_IF_ERROR(verifyOperand(workspace, step.operands_size(), /*isInput=*/false));
  // workspace_c1
  const planpb::Slice &slice = plan.slices(static_cast<int>(workspace.slice()));
  if (workspace.access() != planpb::WRITE || !isScratch(step, workspace))
    return fail(566, "workspace_c1",
                "works in slice \"" + slice.name() + "\", which is no transient memory that its queue may write");
  // workspace_c2
  if (const planpb::Slice *other = sharing(step, slice))
    return fail(567, "workspace_c2",
                "works in slice \"" + slice.name() + "\", which shares bytes with slice \"" + other->name() +
                    "\" of an operand");
  return {};
}

Status StepVerifier::verifyKept(const planpb::Step &step) {
  const planpb::Operand &place = step.kept().place();
  ZC_RETURN_IF_ERROR(verifyOperand(place, step.operands_size() + 1, /*isInput=*/false));
  // kept_c1
  const planpb::Slice &slice = plan.slices(static_cast<int>(place.slice()));
  const bool isOver =
      sharing(step, slice) ||
      (step.has_workspace() && shareBytes(slice, plan.slices(static_cast<int>(step.workspace().slice()))));
  if (section != 0 || microExecutions(plan) < 2 || place.access() != planpb::READ_WRITE || !isScratch(step, place) ||
      isOver)
    return fail(572, "kept_c1",
                "keeps something in slice \"" + slice.name() +
                    "\", which is no transient memory of its own, or for no other micro-step");
  // kept_c2
  if (step.kept().input() >= step.inputs())
    return fail(573, "kept_c2", "keeps what it makes of input " + str(step.kept().input()) + ", which it has not");
  return {};
}

/// When all operands are known: what steps keep something of.
Status StepVerifier::verifyUnchanged() {
  auto keeps = [](const planpb::Step &step) { return step.has_kept(); };
  if (std::none_of(steps.steps().begin(), steps.steps().end(), keeps))
    return {};
  // By arena: where bytes begin that are written, and where they end.
  std::vector<std::map<uint64_t, uint64_t>> written(static_cast<size_t>(plan.arenas_size()));
  auto add = [&](const planpb::Slice &slice) {
    uint64_t &end = written[slice.arena()][slice.offset()];
    end = std::max(end, slice.offset() + slice.bytes());
  };
  for (const planpb::Step &step : steps.steps())
    for (const planpb::Operand &operand : step.operands())
      if (operand.access() != planpb::READ)
        add(plan.slices(static_cast<int>(operand.slice())));
  for (std::map<uint64_t, uint64_t> &arena : written) { // as far as any that begins there or earlier
    uint64_t furthest = 0;
    for (auto &[begin, end] : arena)
      end = furthest = std::max(furthest, end);
  }
  for (index = 0; index < static_cast<uint32_t>(steps.steps_size()); ++index) {
    const planpb::Step &step = steps.steps(static_cast<int>(index));
    if (!keeps(step))
      continue;
    const planpb::Operand &input = step.operands(static_cast<int>(step.kept().input()));
    const planpb::Slice &slice = plan.slices(static_cast<int>(input.slice()));
    const std::map<uint64_t, uint64_t> &arena = written[slice.arena()];
    auto after = arena.lower_bound(slice.offset() + slice.bytes());
    const bool isWritten = after != arena.begin() && std::prev(after)->second > slice.offset();
    if (!slice.persistent() || isWritten)
      return fail(574, "kept_c2",
                  "keeps what it makes of slice \"" + slice.name() + "\", which does not stay the same");
  }
  return {};
}

Status StepVerifier::verifyWaits(const planpb::Step &step) {
  for (const planpb::Wait &wait : step.waits()) {
    std::string what = "waits for step " + str(wait.ordinal()) + " of queue " + std::to_string(wait.queue()) +
                       " of section " + str(wait.section()) + " at distance " + str(wait.distance());
    // wait_c1
    if (wait.section() > 1 || !planpb::Queue_IsValid(wait.queue()) || wait.distance() > kMaxDistance ||
        wait.ordinal() >= queueTotals[wait.section()][static_cast<size_t>(wait.queue())])
      return fail(511, "wait_c1", what + ", which does not exist");
    // wait_c2
    bool isForward = wait.distance() == 0 &&
                     ((section == 0 && wait.section() == 1) ||
                      (section == wait.section() && wait.ordinal() >= queueCounts[static_cast<size_t>(wait.queue())]));
    if (isForward)
      return fail(512, "wait_c2", what + ", which comes later");
  }
  return {};
}

/// input_c2
Status StepVerifier::verifyLoadInput(const planpb::Step &step) {
  if (section != 0 || step.operands_size() != 1 || step.inputs() != 0 || step.operands(0).access() != planpb::WRITE)
    return fail(520, "input_c2", "loads an input other than into one written operand of a micro-step");
  const auto attributes = view(step).attributes();
  auto input = attributes.find("input");
  if (input == attributes.end() || input->second->value_case() != planpb::Attribute::kInteger ||
      !inRange(input->second->integer(), plan.inputs_size()))
    return fail(521, "input_c2",
                "has no attribute \"input\" that is one of " + str(static_cast<uint64_t>(plan.inputs_size())) +
                    " inputs");
  const planpb::TensorType &type =
      plan.types(static_cast<int>(plan.inputs(static_cast<int>(input->second->integer())).type()));
  const planpb::TensorType &stored = typeOf(step.operands(0));
  if (type.type() != stored.type() || bytesOf(type) != bytesOf(stored))
    return fail(522, "input_c2", "stores an input of another type or size than its operand");
  return {};
}

/// output_c2
Status StepVerifier::verifyStoreOutput(const planpb::Step &step) {
  const auto attributes = view(step).attributes();
  auto output = attributes.find("output");
  if (section != 0 || step.operands_size() != 1 || step.inputs() != 1 || step.queue() != planpb::COMPUTE)
    return fail(552, "output_c2", "hands over something else than one operand of a micro-step, on queue compute");
  if (output == attributes.end() || output->second->value_case() != planpb::Attribute::kInteger ||
      !inRange(output->second->integer(), plan.outputs_size()))
    return fail(553, "output_c2",
                "has no attribute \"output\" that is one of " + str(static_cast<uint64_t>(plan.outputs_size())) +
                    " outputs");
  const planpb::TensorType &type =
      plan.types(static_cast<int>(plan.outputs(static_cast<int>(output->second->integer())).type()));
  if (type.type() != typeOf(step.operands(0)).type() || bytesOf(type) != bytes(step.operands(0)))
    return fail(564, "output_c2", "hands over an output of another type or size than its operand");
  return {};
}

} // namespace

Status verifySteps(const planpb::Plan &plan) {
  AliasFinder aliases(plan);
  for (uint32_t section : {0u, 1u})
    ZC_RETURN_IF_ERROR(StepVerifier(plan, section, aliases).run());
  return {};
}

} // namespace zc::verify
