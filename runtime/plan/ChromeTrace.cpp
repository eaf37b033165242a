#include "runtime/plan/ChromeTrace.h"

#include "runtime/plan/Walk.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace zc {

using Json = nlohmann::json;

static Json named(const char *what, int rank, int lane, Json args) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", std::move(args)}};
}

std::string chromeTrace(const planpb::Plan &plan, const std::vector<TraceSpan> &spans) {
  double start = 0;
  if (!spans.empty())
    start = std::min_element(spans.begin(), spans.end(), [](auto &a, auto &b) { return a.begin < b.begin; })->begin;
  Json events = Json::array();
  std::set<std::pair<int, int>> lanes;
  for (const TraceSpan &span : spans) {
    const planpb::Step &step = sectionOf(plan, span.section).steps(static_cast<int>(span.index));
    lanes.insert({span.rank, step.queue()});
    Json arguments = {{"node", plan.strings(static_cast<int>(step.node()))},
                      {"section", span.section == 0 ? "micro" : "update"},
                      {"index", span.index},
                      {"step", span.step}};
    if (span.section == 0 && !plan.vertical())
      arguments["micro"] = span.micro;
    else if (const planpb::Attribute *micro = findAttribute(plan, step, "micro"))
      arguments["micro"] = micro->integer();
    events.push_back({{"ph", "X"},
                      {"name", plan.strings(static_cast<int>(step.kernel()))},
                      {"pid", span.rank},
                      {"tid", int(step.queue())},
                      {"ts", span.begin - start},
                      {"dur", span.length},
                      {"args", std::move(arguments)}});
  }
  for (auto [rank, lane] : lanes) {
    std::string queue = planpb::Queue_Name(static_cast<planpb::Queue>(lane));
    std::transform(queue.begin(), queue.end(), queue.begin(), [](unsigned char c) { return std::tolower(c); });
    events.push_back(named("process_name", rank, lane, {{"name", "rank " + std::to_string(rank)}}));
    events.push_back(named("thread_name", rank, lane, {{"name", queue}}));
    events.push_back(named("thread_sort_index", rank, lane, {{"sort_index", lane}}));
  }
  Json all = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace zc
