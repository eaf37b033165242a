#include "runtime/train/Recording.h"

#include "runtime/io/OutputFile.h"
#include "runtime/plan/ChromeTrace.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc::train {

static constexpr size_t kMaxEvents = size_t(1) << 20;

/// From the first step that anything is wanted of to the last.
static StepRange recorded(const RunOptions &options) {
  if (!options.trace || !options.profile)
    return options.trace ? options.trace : options.profile;
  return {std::min(options.trace.first, options.profile.first), std::max(options.trace.last, options.profile.last)};
}

void Recording::configure(const planpb::Plan &plan, const RunOptions &options, int64_t steps,
                          ExecutorOptions &executor) {
  StepRange range = recorded(options);
  int64_t last = std::min(range.last, steps);
  if (!range || range.first > last)
    return;
  size_t step = size_t(plan.micro().steps_size()) * microExecutions(plan) + size_t(plan.update().steps_size());
  executor.traceCapacity = std::min(step * size_t(last - range.first + 1), kMaxEvents);
  executor.traceFirst = range.first;
  executor.traceLast = last;
}

bool Recording::isDue(const RunOptions &options, int64_t step) {
  StepRange range = recorded(options);
  return range && step == range.last;
}

void Recording::collect(const RunOptions &options, RankExecutor &executor) {
  if (!recorded(options))
    return;
  std::vector<TraceEvent> events = executor.takeTrace();
  std::lock_guard<std::mutex> guard(lock);
  collected.push_back({executor.rank(), std::move(events)});
}

Status Recording::writeTrace(const planpb::Plan &plan, const RunOptions &options, const std::string &path) const {
  std::vector<TraceSpan> spans;
  for (const Events &each : collected)
    for (const TraceEvent &event : each.events)
      if (options.trace.contains(event.step))
        spans.push_back({each.rank, event.section, event.index, event.step, event.micro, double(event.begin) / 1e3,
                         double(event.end - event.begin) / 1e3});
  return spans.empty() ? Status::success() : io::replaceFile(path, chromeTrace(plan, spans));
}

std::vector<TraceEvent> Recording::eventsOfFirst(const StepRange &steps) const {
  std::vector<TraceEvent> events;
  auto isBefore = [](const Events &a, const Events &b) { return a.rank < b.rank; };
  auto first = std::min_element(collected.begin(), collected.end(), isBefore);
  if (first == collected.end())
    return events;
  for (const Events &each : collected) // a rank may have handed over more than once
    if (each.rank == first->rank)
      for (const TraceEvent &event : each.events)
        if (steps.contains(event.step))
          events.push_back(event);
  return events;
}

} // namespace zc::train
