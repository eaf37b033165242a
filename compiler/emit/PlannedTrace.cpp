#include "compiler/emit/PlannedTrace.h"
#include "runtime/plan/ChromeTrace.h"

std::string zc::plannedTrace(const planpb::Plan &plan, const Timeline &timeline) {
  std::vector<TraceSpan> spans;
  for (const PlannedStep &step : timeline.steps) {
    uint32_t perStep = step.where.section == 0 ? timeline.microExecutions : 1;
    spans.push_back({0, step.where.section, step.where.index, step.where.execution / perStep + 1,
                     step.where.section == 0 ? step.where.execution % perStep : 0, step.begin * 1e6,
                     (step.end - step.begin) * 1e6});
  }
  return chromeTrace(plan, spans);
}
