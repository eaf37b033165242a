#include "runtime/train/TraceFile.h"

#include "runtime/base/File.h"
#include "runtime/plan/ChromeTrace.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc::train {

static constexpr size_t kMaxEvents = size_t(1) << 20;

size_t TraceFile::capacity(const planpb::Plan &plan, const RunOptions &options, int64_t steps) {
  int64_t last = std::min(options.traceTo, steps);
  if (options.traceFrom <= 0 || options.traceFrom > last)
    return 0;
  size_t step = size_t(plan.micro().steps_size()) * microExecutions(plan) + size_t(plan.update().steps_size());
  return std::min(step * size_t(last - options.traceFrom + 1), kMaxEvents);
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
  std::vector<TraceSpan> spans;
  for (const Events &each : collected)
    for (const TraceEvent &event : each.events)
      spans.push_back({each.rank, event.section, event.index, event.step, event.micro, double(event.begin) / 1e3,
                       double(event.end - event.begin) / 1e3});
  return writeFileAtomically(path, chromeTrace(plan, spans));
}

} // namespace zc::train
