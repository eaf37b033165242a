#include "runtime/exec/StepKernels.h"

#include "base/Names.h"
#include "base/Size.h"
#include "kernels/Prologue.h"
#include "kernels/Workspace.h"
#include "kernels/cuda/Implementations.h"
#include "runtime/exec/SpecialKernels.h"
#include "runtime/plan/Machine.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace zc {

namespace {

TensorType typeOf(const planpb::TensorType &type) {
  return {static_cast<DType>(type.type()), {type.dims().begin(), type.dims().end()}};
}

Attribute valueOf(const planpb::Attribute &attribute) {
  switch (attribute.value_case()) {
  case planpb::Attribute::kInteger:
    return attribute.integer();
  case planpb::Attribute::kReal:
    return attribute.real();
  case planpb::Attribute::kText:
    return attribute.text();
  case planpb::Attribute::kData:
    return attribute.data();
  case planpb::Attribute::VALUE_NOT_SET:
    break;
  }
  return std::vector<int64_t>(attribute.integers().begin(), attribute.integers().end());
}

} // namespace

KernelSpec kernelSpecOf(const planpb::Plan &plan, const planpb::Step &step) {
  KernelSpec spec;
  spec.name = plan.strings(static_cast<int>(step.kernel()));
  spec.numInputs = step.inputs();
  spec.tf32 = plan.tf32();
  for (const planpb::Operand &operand : step.operands())
    spec.operands.push_back(typeOf(plan.types(static_cast<int>(operand.type()))));
  for (const planpb::Attribute &attribute : step.attributes())
    spec.attributes[plan.strings(static_cast<int>(attribute.name()))] = valueOf(attribute);
  if (step.has_workspace())
    spec.workspace = typeOf(plan.types(static_cast<int>(step.workspace().type()))).numBytes();
  if (step.has_kept()) {
    spec.kept = typeOf(plan.types(static_cast<int>(step.kept().place().type()))).numBytes();
    spec.keptInput = step.kept().input();
  }
  return spec;
}

Status verifyWithPrograms(const planpb::Plan &plan) {
  ZC_RETURN_IF_ERROR(verifyPlan(plan));
  auto hasProgram = [&](const planpb::Step &step) {
    return plan.strings(static_cast<int>(step.kernel())) == "fused" ||
           std::any_of(step.attributes().begin(), step.attributes().end(), [&](const planpb::Attribute &attribute) {
             return plan.strings(static_cast<int>(attribute.name())) == "program";
           });
  };
  for (uint32_t section : {0u, 1u, kEvalSection}) {
    const auto &steps = sectionOf(plan, section).steps();
    for (int i = 0; i < steps.size(); ++i) {
      if (!hasProgram(steps[i]))
        continue;
      if (Status status = checkProgram(kernelSpecOf(plan, steps[i])); !status.ok())
        return locate(status.error(), plan, section, static_cast<uint32_t>(i));
    }
  }
  return {};
}

std::set<ProductShape> productsOf(const planpb::Plan &plan, int threads) {
  std::set<ProductShape> shapes;
  for (uint32_t section : {0u, 1u, kEvalSection})
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      KernelSpec spec = kernelSpecOf(plan, step);
      spec.threads = threads;
      for (const ProductShape &shape : productsOf(spec))
        shapes.insert(shape);
    }
  return shapes;
}

Result<std::optional<Implementation>> implementationOf(const planpb::Plan &plan, const planpb::Step &step,
                                                       Target target, const KernelRegistry &host,
                                                       const KernelSettings &settings) {
  using Found = std::optional<Implementation>;
  KernelSpec spec = kernelSpecOf(plan, step);
  spec.threads = settings.threads;
  spec.products = settings.products;
  if (findTierCopy(spec.name) || isSpecialKernel(spec.name))
    return Found(Implementation{Implementation::Kind::runtime, {}, {}});
  if (target == Target::cuda && step.queue() != planpb::HOST_COMPUTE)
    return cuda::implementationOf(spec);
  if (!host.contains(spec.name))
    return Found();
  if (mayHaveWorkspace(spec.name))
    spec.workspace = workspaceBytes(spec, Target::cpu);
  Result<Implementation> found = host.implementationOf(spec);
  return found ? Result<Found>(Found(*found)) : Result<Found>(found.error());
}

std::string nameOf(const std::optional<Implementation> &by) {
  if (!by)
    return "no implementation";
  std::string name = nameOf(by->kind);
  return by->library.empty() ? name : name + ": " + std::string(by->library);
}

std::string methodOf(const std::optional<Implementation> &by) {
  return by && !by->method.empty() ? nameOf(by->kind) + (": " + by->method) : nameOf(by);
}

/// How to compile the plan's model for `target`.
static std::string commandFor(const planpb::Plan &plan, Target target) {
  std::string command = escapeName(plan.command());
  for (const char *name : namesOf(Target()))
    if (const std::string flag = std::string(" --target ") + name; command.find(flag) != std::string::npos)
      command.erase(command.find(flag), flag.size());
  return (command.empty() ? "zero-compile MODEL.onnx" : command) + " --target " + nameOf(target) + " -o PLAN";
}

Status checkImplementations(const planpb::Plan &plan, Target target, const KernelRegistry &host) {
  int64_t missing = 0;
  std::string first;
  for (uint32_t section : {0u, 1u, kEvalSection})
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      Result<std::optional<Implementation>> found = implementationOf(plan, step, target, host);
      ZC_RETURN_IF_ERROR(found.status());
      if (!*found && missing++ == 0)
        first = "kernel \"" + plan.strings(static_cast<int>(step.kernel())) + "\" of node \"" +
                plan.strings(static_cast<int>(step.node())) + "\"";
    }
  if (missing == 0)
    return {};
  const std::string what = counted(missing, "step") + (missing == 1 ? " has" : " have") + " no implementation on " +
                           nameOf(target) + ", the first is " + first;
  if (const auto plannedFor = static_cast<Target>(plan.target()); plannedFor != target)
    return makeError(Code::mismatch, 699, what + "; the plan is for " + nameOf(plannedFor), {},
                     commandFor(plan, target));
  return makeError(Code::unsupported, 652, what, {},
                   "zero-run inspect PLAN --kernels lists them; --device cpu runs the plan");
}

namespace {
/// Of one kernel.
struct PlainLoops {
  uint32_t node = 0; ///< the first step's
  int steps = 0;
  double seconds = 0, predicted = 0; ///< of a training step
};

/// What decides who computes a step: its kernel, types, attributes (an axis or a view).
std::string specOf(const planpb::Step &step) {
  std::string spec = std::to_string(step.kernel());
  for (const planpb::Operand &operand : step.operands())
    spec += " " + std::to_string(operand.type());
  for (const planpb::Attribute &attribute : step.attributes())
    spec += " " + attribute.SerializeAsString();
  return spec;
}

/// Of a training step, without what every step costs whoever computes it: of tiny ones that is all. `isPlain`: by plain
/// loops, which a plan, that is of a machine's limits, does not foresee.
double secondsOf(const planpb::Plan &plan, uint32_t section, const planpb::Step &step, bool isPlain) {
  constexpr double kPlainElement = 8e-9; // comparisons 10 to 12, bools 10, dropout 16 (a Zen 3)
  constexpr double kMostBytes = 1e11;    // of a second: not all of an operand is touched, as its padding is
  const double foreseen = std::max(0.0, step.seconds() - MachineModel().stepOverhead);
  double elements = 0;
  for (int i = 0; isPlain && i < step.operands_size(); ++i) {
    const TensorType type = typeOf(plan.types(static_cast<int>(step.operands(i).type())));
    elements = std::max(elements, static_cast<double>(type.numElements()));
  }
  const double seconds = std::max(foreseen, kPlainElement * std::min(elements, foreseen * kMostBytes));
  return seconds * double(section == 0 ? microExecutions(plan) : 1);
}

/// By kernel, if all of it were plain loops.
std::map<std::string, double> mostSecondsByKernel(const planpb::Plan &plan) {
  std::map<std::string, double> seconds;
  for (uint32_t section : {0u, 1u})
    for (const planpb::Step &step : sectionOf(plan, section).steps())
      seconds[plan.strings(static_cast<int>(step.kernel()))] += secondsOf(plan, section, step, true);
  return seconds;
}
} // namespace

std::vector<std::string> plainLoopNotes(const planpb::Plan &plan, Target target, const KernelRegistry &host) {
  constexpr double kLeastShare = 0.005; // of all steps of a kernel: many small ones are as slow as a large one
  const double whole = plan.report().predicted_step_seconds();
  if (!(whole > 0))
    return {};
  std::map<std::string, PlainLoops> found;
  const std::map<std::string, double> most = mostSecondsByKernel(plan);
  std::map<std::string, bool> known; // by spec: preparing a kernel takes time
  for (uint32_t section : {0u, 1u})
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      const std::string &kernel = plan.strings(static_cast<int>(step.kernel()));
      if (most.at(kernel) < kLeastShare * whole)
        continue;
      auto [at, isNew] = known.try_emplace(specOf(step), false);
      if (isNew) {
        auto by = implementationOf(plan, step, target, host);
        at->second = by.ok() && *by && (*by)->kind == Implementation::Kind::reference;
      }
      if (!at->second)
        continue;
      PlainLoops &loops = found[kernel];
      if (loops.steps++ == 0)
        loops.node = step.node();
      loops.seconds += secondsOf(plan, section, step, true);
      loops.predicted += secondsOf(plan, section, step, false);
    }
  std::vector<std::string> notes;
  for (const auto &[kernel, loops] : found) {
    const double part = loops.seconds / (whole + loops.seconds - loops.predicted);
    if (part < kLeastShare)
      continue;
    char share[32];
    std::snprintf(share, sizeof share, "%.2g", 100 * part);
    const std::string &node = plan.strings(static_cast<int>(loops.node));
    const std::string who =
        node.empty()
            ? counted(loops.steps, "step") // which no node asked for
            : "node \"" + node + "\"" + (loops.steps == 1 ? "" : " and " + std::to_string(loops.steps - 1) + " more");
    notes.push_back(who + ": plain loops compute " + kernel + ", " + share +
                    " % of the time that is predicted (zero-run inspect PLAN --kernels)");
  }
  return notes;
}

} // namespace zc
