//===- StepView.h - a step as what verifies it sees it ------------------------------===//
#pragma once

#include "base/Mesh.h"
#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <map>
#include <string>

namespace zc::verify {

/// Once its names are known to be some, and its operands' types (step_c1, operand_c1).
struct StepView {
  const planpb::Plan &plan;
  const Mesh &mesh;
  uint32_t section, index;
  const planpb::Step &step;

  const std::string &kernel() const { return plan.strings(static_cast<int>(step.kernel())); }
  const planpb::TensorType &typeOf(const planpb::Operand &operand) const {
    return plan.types(static_cast<int>(operand.type()));
  }
  std::map<std::string, const planpb::Attribute *> attributes() const {
    std::map<std::string, const planpb::Attribute *> byName;
    for (const planpb::Attribute &attribute : step.attributes())
      byName[plan.strings(static_cast<int>(attribute.name()))] = &attribute;
    return byName;
  }
  /// The constraint that it violates, at its node.
  Error fail(int number, const char *label, const std::string &what) const {
    return violation(number, label, describe(plan, {section, 0, index}) + " " + what,
                     plan.strings(static_cast<int>(step.node())));
  }
};

} // namespace zc::verify
