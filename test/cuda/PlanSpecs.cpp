#include "test/cuda/PlanSpecs.h"

#include "runtime/exec/StepKernels.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Walk.h"

namespace zc::test {

/// Of what decides how a kernel is computed.
static std::string keyOf(const planpb::Plan &plan, const planpb::Step &step) {
  std::string key = (plan.tf32() ? "tf32 " : "") + plan.strings(static_cast<int>(step.kernel()));
  for (const planpb::Operand &operand : step.operands())
    key += " " + plan.types(static_cast<int>(operand.type())).SerializeAsString();
  for (const planpb::Attribute &attribute : step.attributes()) {
    planpb::Attribute value = attribute;
    value.clear_name(); // a number in this plan's table
    key += " " + plan.strings(static_cast<int>(attribute.name())) + "=" + value.SerializeAsString();
  }
  return key;
}

Result<std::vector<KernelSpec>> LibraryKernels::add(const std::string &path) {
  Result<planpb::Plan> plan = readPlan(path);
  ZC_RETURN_IF_ERROR(plan.status());
  ZC_RETURN_IF_ERROR(verifyWithPrograms(*plan));
  std::vector<KernelSpec> found;
  const KernelRegistry none;
  for (uint32_t section : {0u, 1u, kEvalSection})
    for (const planpb::Step &step : sectionOf(*plan, section).steps()) {
      if (step.queue() == planpb::HOST_COMPUTE)
        continue;
      auto by = implementationOf(*plan, step, Target::cuda, none);
      ZC_RETURN_IF_ERROR(by.status());
      const bool isChosen = *by && (*by)->kind == Implementation::Kind::library && (*by)->library != "NVRTC";
      if (isChosen && seen.insert(keyOf(*plan, step)).second)
        found.push_back(kernelSpecOf(*plan, step));
    }
  return found;
}

} // namespace zc::test
