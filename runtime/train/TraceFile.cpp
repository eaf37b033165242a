#include "runtime/train/TraceFile.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace zc::train {

static constexpr size_t kMaxEvents = size_t(1) << 20;

size_t TraceFile::capacity(const planpb::Plan &plan, const RunOptions &options) {
  if (options.traceFrom <= 0)
    return 0;
  size_t step = size_t(plan.micro().steps_size()) * plan.accumulation() + size_t(plan.update().steps_size());
  return std::min(step * size_t(options.traceTo - options.traceFrom + 1), kMaxEvents);
}

void TraceFile::collect(const RunOptions &options, RankExecutor &executor) {
  if (options.traceFrom <= 0)
    return;
  std::vector<TraceEvent> events = executor.takeTrace();
  auto isOutside = [&](const TraceEvent &e) { return e.step < options.traceFrom || e.step > options.traceTo; };
  events.erase(std::remove_if(events.begin(), events.end(), isOutside), events.end());
  std::lock_guard<std::mutex> guard(lock);
  collected.push_back({executor.rank(), std::move(events)});
}

Status TraceFile::write(const planpb::Plan &plan, const std::string &path) const {
  if (collected.empty())
    return Status::success();
  using Json = nlohmann::json;
  Json events = Json::array();
  for (const Events &each : collected)
    for (const TraceEvent &event : each.events) {
      const planpb::Section &section = event.section == 0 ? plan.micro() : plan.update();
      const planpb::Step &step = section.steps(int(event.index));
      events.push_back(
          {{"ph", "X"},
           {"name", plan.strings(int(step.kernel()))},
           {"pid", each.rank},
           {"tid", planpb::Queue_Name(planpb::Queue(event.queue))},
           {"ts", double(event.begin) / 1e3},
           {"dur", double(event.end - event.begin) / 1e3},
           {"args", {{"node", plan.strings(int(step.node()))}, {"step", event.step}, {"micro", event.micro}}}});
    }
  Json all = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return writeFileAtomically(path, all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace zc::train
