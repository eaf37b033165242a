#include "runtime/exec/StreamTrace.h"

#include "base/Clock.h"

namespace zc {

Status StreamTrace::prepare(const PreparedPlan &plan) {
  auto make = [&](std::unique_ptr<Stamp> &stamp) -> Status {
    Result<std::unique_ptr<Stamp>> made = device.makeStamp();
    ZC_RETURN_IF_ERROR(made.status());
    stamp = std::move(*made);
    return {};
  };
  size_t steps = 0;
  for (uint32_t section : {0u, 1u}) {
    const uint64_t places = placesOf(section);
    spans[section].resize(plan.steps[section].size() * places);
    for (const PreparedStep &step : plan.steps[section])
      for (uint64_t place = 0; step.onDevice && place < places; ++place) {
        Span &span = spans[section][step.index * places + place];
        ZC_RETURN_IF_ERROR(make(span.begin));
        ZC_RETURN_IF_ERROR(make(span.end));
        ++steps;
      }
  }
  for (Iteration &iteration : iterations) {
    ZC_RETURN_IF_ERROR(make(iteration.begin));
    iteration.done.reserve(steps / inFlight);
  }
  return {};
}

Status StreamTrace::beginIteration(uint64_t mine, Stream &stream) {
  Iteration &iteration = iterations[mine % inFlight];
  ZC_RETURN_IF_ERROR(stream.stamp(*iteration.begin));
  return stream.call([](void *onHost) { *static_cast<std::atomic<int64_t> *>(onHost) = nanoseconds(); },
                     &iteration.onHost);
}

Status StreamTrace::collect(uint64_t mine, const std::function<void(const TraceEvent &)> &add) {
  Iteration &iteration = iterations[mine % inFlight];
  auto timeOf = [&](const Stamp &stamp) -> Result<int64_t> {
    Result<int64_t> since = device.nanosecondsBetween(*iteration.begin, stamp);
    return since ? Result<int64_t>(iteration.onHost + *since) : since;
  };
  for (const Done &done : iteration.done) {
    Result<int64_t> begin = timeOf(*done.span->begin), end = timeOf(*done.span->end);
    ZC_RETURN_IF_ERROR(begin.status());
    ZC_RETURN_IF_ERROR(end.status());
    add({*begin, *end, done.step, done.micro, done.index, done.section, done.queue});
  }
  iteration.done.clear();
  return {};
}

} // namespace zc
