#include "runtime/exec/PreparedPlan.h"

#include "kernels/Workspace.h"
#include "runtime/exec/SpecialKernels.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/plan/Collectives.h"
#include "runtime/plan/StepNames.h"
#include "runtime/plan/Walk.h"

#include <map>
#include <optional>

namespace zc {

Status PreparedPlan::prepare(const RankParts &parts) {
  const Communicator &communicator = parts.communicator;
  if (communicator.worldSize() != mesh.worldSize())
    return makeError(Code::mismatch, 651,
                     "plan is for " + std::to_string(mesh.worldSize()) + " ranks, this job has " +
                         std::to_string(communicator.worldSize()),
                     {}, "compile with --world-size " + std::to_string(communicator.worldSize()));
  if (communicator.mesh() != mesh) // the steps' axes are places in it
    return makeError(Code::mismatch, 659, "this job's ranks stand on another mesh than the plan's");
  runsOn = parts.streams ? parts.streams->device.target() : parts.registry.target();
  if (runsOn == Target::cuda || static_cast<Target>(plan.target()) != runsOn)
    ZC_RETURN_IF_ERROR(checkImplementations(plan, runsOn, parts.registry));
  if (ownsMemory)
    ZC_RETURN_IF_ERROR(memory.map(parts.options, parts.streams));
  if (static_cast<Target>(plan.target()) != runsOn)
    ZC_RETURN_IF_ERROR(mapForeignWorkspace(parts));
  if (ownsMemory && parts.streams)
    ZC_RETURN_IF_ERROR(parts.streams->device.checkRoom());
  if (ownsMemory)
    notes = memory.notes;
  if (parts.streams)
    parts.streams->device.foresee(specsOnStreams(parts), parts.options.threads);
  for (uint32_t section : {0u, 1u})
    ZC_RETURN_IF_ERROR(prepareSection(section, parts));
  collectNotes();
  if (communicator.rank() == 0) // who tells of them
    for (std::string &note : plainLoopNotes(plan, runsOn, parts.registry))
      notes.push_back(std::move(note));
  findMetricWriters();
  if (parts.options.agree)
    prepareAgreement(parts.options.agree);
  return {};
}

void PreparedPlan::collectNotes() {
  struct Noted {
    uint32_t node;
    size_t others;
  };
  std::map<std::string, Noted> all;
  for (uint32_t section : {0u, 1u})
    for (const PreparedStep &step : steps[section])
      if (std::string note = step.kernel ? step.kernel->note() : std::string(); !note.empty()) {
        const planpb::Step &source = stepOf(plan, {section, 0, step.index});
        auto [at, isNew] =
            all.try_emplace(plan.strings(static_cast<int>(source.kernel())) + " " + note, Noted{source.node(), 0});
        at->second.others += !isNew;
      }
  for (const auto &[text, noted] : all)
    notes.push_back("node \"" + plan.strings(static_cast<int>(noted.node)) + "\"" +
                    (noted.others == 0 ? "" : " and " + std::to_string(noted.others) + " more") + ": " + text);
}

static bool writesMetric(const planpb::Plan &plan, const planpb::Step &step) {
  if (plan.forward_only())
    return false;
  for (const planpb::Operand &operand : step.operands())
    if (operand.access() != planpb::READ && (operand.slice() == plan.metrics().loss_slice() ||
                                             int64_t(operand.slice()) == plan.metrics().grad_norm_slice()))
      return true;
  return false;
}

/// Of a plan without metrics the host reads what it hands over.
static bool isReadByHost(const planpb::Plan &plan, const planpb::Step &step) {
  return writesMetric(plan, step) || plan.strings(static_cast<int>(step.kernel())) == kStoreOutput;
}

void PreparedPlan::findMetricWriters() {
  std::optional<PreparedWait> last[kNumQueues];
  for (uint8_t section : {uint8_t(0), uint8_t(1)}) {
    uint32_t ordinals[kNumQueues] = {};
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      uint32_t ordinal = ordinals[step.queue()]++;
      if (isReadByHost(plan, step))
        last[step.queue()] = PreparedWait{section, static_cast<uint8_t>(step.queue()), ordinal, 0};
    }
  }
  for (const std::optional<PreparedWait> &wait : last)
    if (wait)
      metricWriters.push_back(*wait);
}

namespace {
class AgreeingKernel : public Kernel {
public:
  AgreeingKernel(std::unique_ptr<Kernel> inner, std::function<Status()> agree)
      : inner(std::move(inner)), agree(std::move(agree)) {}
  Status run(void *const *operands, const StepContext &context) override {
    ZC_RETURN_IF_ERROR(agree());
    return inner->run(operands, context);
  }

private:
  std::unique_ptr<Kernel> inner;
  std::function<Status()> agree;
};

/// Of a micro-step that the plan names.
class MicroStepKernel : public Kernel {
public:
  MicroStepKernel(std::unique_ptr<Kernel> inner, int64_t micro) : inner(std::move(inner)), micro(micro) {}
  Status run(void *const *operands, const StepContext &context) override {
    StepContext own = context;
    own.micro = micro;
    return inner->run(operands, own);
  }
  std::string note() const override { return inner->note(); }
  std::string method() const override { return inner->method(); }

private:
  std::unique_ptr<Kernel> inner;
  int64_t micro;
};
} // namespace

void PreparedPlan::prepareAgreement(const std::function<Status()> &agree) {
  for (uint32_t section : {1u, 0u}) {
    if (section == 0 && microExecutions(plan) > 1) // more than once a step
      return;
    const planpb::Section &source = sectionOf(plan, section);
    for (int i = source.steps_size() - 1; i >= 0; --i) {
      if (source.steps(i).queue() != planpb::COMM || !writesMetric(plan, source.steps(i)))
        continue;
      agreesInStep = true;
      PreparedStep &step = steps[section][static_cast<size_t>(i)];
      if (step.onDevice) {
        step.agrees = true;
        return;
      }
      std::unique_ptr<Kernel> &kernel = kernels[(section == 0 ? 0 : steps[0].size()) + static_cast<size_t>(i)];
      kernel = std::make_unique<AgreeingKernel>(std::move(kernel), agree);
      step.kernel = kernel.get();
      return;
    }
  }
}

KernelSpec PreparedPlan::specOf(const planpb::Step &step, const RankParts &parts) const {
  KernelSpec spec = kernelSpecOf(plan, step);
  if (isForeign(step) && mayHaveWorkspace(spec.name))
    spec.workspace = workspaceBytes(spec, runsOn);
  spec.inPlace = aliases.inPlace(step);
  spec.threads = parts.options.threads;
  spec.rank = mesh.indexOf(mesh.dataAxes(), parts.communicator.rank());
  spec.modelRank = mesh.indexOf(mesh.modelAxes(), parts.communicator.rank());
  spec.seed = parts.options.seed.value_or(plan.seed());
  spec.products = parts.options.products.get();
  return spec;
}

std::vector<KernelSpec> PreparedPlan::specsOnStreams(const RankParts &parts) const {
  std::vector<KernelSpec> specs;
  for (uint32_t section : {0u, 1u})
    for (const planpb::Step &step : sectionOf(plan, section).steps())
      if (isStreamQueue(step.queue()))
        specs.push_back(specOf(step, parts));
  return specs;
}

Result<std::unique_ptr<Kernel>> PreparedPlan::makeKernel(const planpb::Step &step, const KernelSpec &spec,
                                                         const RankParts &parts) {
  if (std::unique_ptr<Kernel> copy = memory.makeCopy(spec))
    return copy;
  Result<std::unique_ptr<Kernel>> special =
      makeSpecialKernel(spec, axesOf(step), parts.communicator, parts.loader, parts.options.outputs);
  if (!special || (*special && !findCollective(spec.name)))
    return special;
  if (*special)
    return memory.slowDown(std::move(*special), parts.communicator);
  if (!parts.registry.contains(spec.name))
    return makeError(Code::corrupt, 653, "plan uses unknown kernel \"" + spec.name + "\"");
  return parts.registry.prepare(spec);
}

Status PreparedPlan::mapForeignWorkspace(const RankParts &parts) {
  std::array<int64_t, kNumQueues> most{};
  for (uint32_t section : {0u, 1u})
    for (const planpb::Step &step : sectionOf(plan, section).steps())
      if (isForeign(step))
        most[step.queue()] = std::max(most[step.queue()], specOf(step, parts).workspace);
  for (size_t queue = 0; queue < kNumQueues; ++queue)
    if (most[queue] > 0) {
      Result<void *> mapped = memory.mapBeside(static_cast<uint64_t>(most[queue]));
      ZC_RETURN_IF_ERROR(mapped.status());
      workspaces[queue] = *mapped;
    }
  return {};
}

void PreparedPlan::resolveOperands(const planpb::Step &step, const KernelSpec &spec, int rank,
                                   std::vector<void *> &pool) const {
  auto resolve = [&](const planpb::Operand &operand) {
    pool.push_back(memory.operand(operand.slice(), offsetOn(operand, mesh, rank)));
  };
  for (const planpb::Operand &operand : step.operands())
    resolve(operand);
  if (isForeign(step) && mayHaveWorkspace(spec.name))
    pool.push_back(workspaces[step.queue()]);
  else if (step.has_workspace())
    resolve(step.workspace());
  else if (step.has_kept())
    pool.push_back(nullptr);
  if (step.has_kept())
    resolve(step.kept().place());
}

Status PreparedPlan::prepareKernel(const planpb::Step &step, const KernelSpec &spec, const RankParts &parts,
                                   PreparedStep &out) {
  out.micro = spec.getInt("micro", -1);
  out.isCollective = findCollective(spec.name) != nullptr;
  if (parts.streams && isStreamQueue(step.queue())) {
    Result<std::unique_ptr<Kernel>> special =
        makeSpecialKernel(spec, axesOf(step), parts.communicator, parts.loader, parts.options.outputs);
    ZC_RETURN_IF_ERROR(special.status());
    auto number = static_cast<uint32_t>(kernels.size());
    Result<DeviceKernel *> kernel = parts.streams->make(spec, std::move(*special), number);
    ZC_RETURN_IF_ERROR(kernel.status());
    out.onDevice = *kernel;
    kernels.push_back(nullptr);
    return {};
  }
  Result<std::unique_ptr<Kernel>> kernel = makeKernel(step, spec, parts);
  ZC_RETURN_IF_ERROR(kernel.status());
  out.copy = dynamic_cast<QueuedCopy *>(kernel->get());
  if (out.micro >= 0 && !out.copy) // copies look at no micro-step, and one that is wrapped would be queued no more
    *kernel = std::make_unique<MicroStepKernel>(std::move(*kernel), out.micro);
  out.kernel = kernel->get();
  kernels.push_back(std::move(*kernel));
  return {};
}

Status PreparedPlan::prepareSection(uint32_t section, const RankParts &parts) {
  const planpb::Section &source = sectionOf(plan, section);
  size_t numOperands = 0, numWaits = 0;
  for (const planpb::Step &step : source.steps()) {
    numOperands += static_cast<size_t>(step.operands_size()) + 2; // a workspace, and what is kept
    numWaits += static_cast<size_t>(step.waits_size());
  }
  // Reserved whole, so that pointers into them stay.
  operandPool[section].reserve(numOperands);
  waitPool[section].reserve(numWaits);
  steps[section].reserve(static_cast<size_t>(source.steps_size()));
  for (int i = 0; i < source.steps_size(); ++i) {
    const planpb::Step &step = source.steps(i);
    PreparedStep out;
    const KernelSpec spec = specOf(step, parts);
    if (Status status = prepareKernel(step, spec, parts, out); !status.ok())
      return locate(status.error(), plan, section, static_cast<uint32_t>(i));
    out.operands = operandPool[section].data() + operandPool[section].size();
    out.waits = waitPool[section].data() + waitPool[section].size();
    out.numWaits = static_cast<uint32_t>(step.waits_size());
    out.index = static_cast<uint32_t>(i);
    out.queue = static_cast<uint8_t>(step.queue());
    out.publishes = step.publishes();
    resolveOperands(step, spec, parts.communicator.rank(), operandPool[section]);
    for (const planpb::Wait &wait : step.waits())
      waitPool[section].push_back(
          {static_cast<uint8_t>(wait.section()), static_cast<uint8_t>(wait.queue()), wait.ordinal(), wait.distance()});
    steps[section].push_back(out);
    queues[section][step.queue()].push_back(&steps[section].back());
    if (!out.copy)
      mixed.set(step.queue());
  }
  return {};
}

uint64_t PreparedPlan::stepsPerIteration(unsigned queue) const {
  return microExecutions(plan) * queues[0][queue].size() + queues[1][queue].size();
}

uint64_t PreparedPlan::target(const PreparedWait &wait, uint32_t section, int64_t index) const {
  int64_t execution = waitedExecution(section, index, wait.section, wait.distance, microExecutions(plan));
  if (execution < 0)
    return 0;
  // What the queue finishes before that execution begins: `micros` executions of micro and `updates` of update.
  uint64_t micros = static_cast<uint64_t>(execution), updates = micros;
  if (wait.section == 0)
    updates /= microExecutions(plan);
  else
    micros = (micros + 1) * microExecutions(plan);
  return micros * queues[0][wait.queue].size() + updates * queues[1][wait.queue].size() + wait.ordinal + 1;
}

} // namespace zc
