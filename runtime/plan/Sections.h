//===- Sections.h - a plan's sections by number ---------------------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

#include <cstdint>

namespace zc {

/// What waits of the evaluation call it; as a plan by itself (Evaluation.h) it is that plan's section 0.
constexpr uint32_t kEvalSection = 2;

/// Section 0 is micro, 1 update. Of a plan without evaluation that section is empty.
inline const planpb::Section &sectionOf(const planpb::Plan &plan, uint32_t section) {
  return section == 0 ? plan.micro() : section == kEvalSection ? plan.eval() : plan.update();
}

} // namespace zc
