//===- StreamContexts.h - what changes from step to step, where streams read it ------===//
//
// Steps of streams read the step's number, its rate and the like from the device's memory: contexts, one per micro-step
// of each iteration that may be under way, which a stream of their own brings there. A stream whose steps are repeated
// as graphs has a block of its own besides, always in the same place, which is told where the stream is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/exec/PreparedPlan.h"

#include <array>
#include <memory>

namespace zc {

/// By queue; null for queues of the host and for those without steps.
using QueueStreams = std::array<std::unique_ptr<Stream>, kNumQueues>;

class StreamContexts {
public:
  /// `perStep` micro-steps in an iteration, of which `inFlight` may be under way.
  StreamContexts(Device &device, uint32_t perStep, uint64_t inFlight)
      : device(device), perStep(perStep), inFlight(inFlight) {}

  /// Memory and the stream that brings them; once. Errors: the device refused.
  Status prepare(const PreparedPlan &plan);
  /// Iteration `mine`, which begins as `context` says and whose slots nobody uses any more, to the streams that ask.
  Status bring(uint64_t mine, const StepContext &context, const QueueStreams &streams);
  /// The streams come to micro-step `micro` of it.
  Status enter(uint64_t mine, int64_t micro, const QueueStreams &streams);
  /// Of a step of a stream, in iteration `mine` and, unless it names its own, micro-step `micro`.
  EnqueuedContext of(const PreparedStep &step, uint64_t mine, int64_t micro) const;

  /// Contexts that may be in use at once.
  uint32_t slots() const { return perStep * static_cast<uint32_t>(inFlight); }
  /// What `bring` is told on: streams wait for it. Null before `prepare`.
  Stream *control() const { return bringing.get(); }

private:
  uint32_t slotOf(uint64_t mine, int64_t micro) const {
    return static_cast<uint32_t>(mine % inFlight * perStep + static_cast<uint64_t>(micro));
  }

  Device &device;
  const uint32_t perStep;
  const uint64_t inFlight;
  bool namesMicroSteps = false; ///< do steps say themselves which micro-step they are of?
  std::unique_ptr<Stream> bringing;
  std::unique_ptr<Event> brought;
  StepContext *onHost = nullptr, *onDevice = nullptr; ///< by slot
  /// By queue, on the device: the context of the micro-step that its stream is at, and behind it those of all
  /// micro-steps of the iteration, where steps name theirs. Null: no step of the stream asks.
  std::array<StepContext *, kNumQueues> current{};
};

} // namespace zc
