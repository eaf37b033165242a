//===- StreamTrace.h - when a device's streams did which step ----------------------===//
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/exec/PreparedPlan.h"
#include "runtime/exec/Trace.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace zc {

/// Stamps around each step, on its stream: behind its waits, and behind its work. They are read when their iteration is
/// over, so nothing waits for them. Times within an iteration are the device's own, exact to what its stamps are; the
/// host calls the device's clock by one call per iteration, which may be late by what a call takes.
class StreamTrace {
public:
  /// `slots`: contexts that may be in use at once, `inFlight` iterations of them.
  StreamTrace(Device &device, uint32_t slots, uint64_t inFlight)
      : device(device), slots(slots), inFlight(inFlight), iterations(inFlight) {}

  /// Makes all stamps; once. Errors: the device refused.
  Status prepare(const PreparedPlan &plan);
  /// On a stream that the streams of the steps then wait for.
  Status beginIteration(uint64_t mine, Stream &stream);
  /// Enqueues `work`, of a step, between its stamps.
  template <typename Work>
  Status around(uint64_t mine, const PreparedStep &step, uint32_t section, const EnqueuedContext &context,
                Stream &stream, const Work &work) {
    const uint64_t place = section == 0 ? context.slot : mine % inFlight;
    Span &span = spans[section][step.index * placesOf(section) + place];
    ZC_RETURN_IF_ERROR(stream.stamp(*span.begin));
    ZC_RETURN_IF_ERROR(work());
    ZC_RETURN_IF_ERROR(stream.stamp(*span.end));
    iterations[mine % inFlight].done.push_back({&span, context.host->step, static_cast<uint32_t>(context.host->micro),
                                                step.index, static_cast<uint8_t>(section), step.queue});
    return {};
  }
  /// Hands over what was stamped in the iteration that `mine` is in the place of, or in `mine` itself; it is over.
  Status collect(uint64_t mine, const std::function<void(const TraceEvent &)> &add);

private:
  struct Span {
    std::unique_ptr<Stamp> begin, end;
  };
  struct Done {
    const Span *span;
    int64_t step;
    uint32_t micro, index;
    uint8_t section, queue;
  };
  struct Iteration {
    std::unique_ptr<Stamp> begin;
    std::atomic<int64_t> onHost{0}; ///< when the host was told of it
    std::vector<Done> done;
  };

  /// How many times a step may be on its way at once: one of the update once an iteration.
  uint64_t placesOf(uint32_t section) const { return section == 0 ? slots : inFlight; }

  Device &device;
  const uint32_t slots;
  const uint64_t inFlight;
  std::vector<Span> spans[2]; // by step and place; none for queues of the host
  std::vector<Iteration> iterations;
};

} // namespace zc
