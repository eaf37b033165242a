#include "runtime/exec/StreamContexts.h"

#include "runtime/plan/Tiers.h"

namespace zc {

Status StreamContexts::prepare(const PreparedPlan &plan) {
  namesMicroSteps = plan.plan.vertical();
  uint64_t bytes = slots() * sizeof(StepContext), ownBytes = (1 + perStep) * sizeof(StepContext);
  Result<void *> pinned = device.allocatePinned(bytes), there = device.allocate(bytes + kNumQueues * ownBytes);
  ZC_RETURN_IF_ERROR(pinned.status());
  ZC_RETURN_IF_ERROR(there.status());
  onHost = static_cast<StepContext *>(*pinned);
  onDevice = static_cast<StepContext *>(*there);
  for (uint32_t section : {0u, 1u})
    for (const PreparedStep &step : plan.steps[section])
      if (isStreamQueue(static_cast<planpb::Queue>(step.queue)) && step.onDevice->isRepeatable())
        current[step.queue] = onDevice + slots() + step.queue * (1 + perStep);
  Result<std::unique_ptr<Stream>> stream = device.makeStream();
  ZC_RETURN_IF_ERROR(stream.status());
  bringing = std::move(*stream);
  Result<std::unique_ptr<Event>> event = device.makeEvent();
  ZC_RETURN_IF_ERROR(event.status());
  brought = std::move(*event);
  return {};
}

Status StreamContexts::bring(uint64_t mine, const StepContext &context, const QueueStreams &streams) {
  const uint32_t first = slotOf(mine, 0);
  const uint64_t bytes = perStep * sizeof(StepContext);
  for (uint32_t micro = 0; micro < perStep; ++micro) {
    onHost[first + micro] = context;
    onHost[first + micro].micro = micro;
  }
  ZC_RETURN_IF_ERROR(bringing->copy(onDevice + first, onHost + first, bytes));
  ZC_RETURN_IF_ERROR(bringing->record(*brought));
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    if (current[queue]) {
      ZC_RETURN_IF_ERROR(streams[queue]->wait(*brought));
      if (namesMicroSteps)
        ZC_RETURN_IF_ERROR(streams[queue]->copy(current[queue] + 1, onDevice + first, bytes));
    }
  return {};
}

Status StreamContexts::enter(uint64_t mine, int64_t micro, const QueueStreams &streams) {
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    if (current[queue])
      ZC_RETURN_IF_ERROR(streams[queue]->copy(current[queue], onDevice + slotOf(mine, micro), sizeof(StepContext)));
  return {};
}

EnqueuedContext StreamContexts::of(const PreparedStep &step, uint64_t mine, int64_t micro) const {
  const uint32_t slot = slotOf(mine, step.micro >= 0 ? step.micro : micro);
  StepContext *own = current[step.queue];
  return {onHost + slot, own ? own + (step.micro >= 0 ? 1 + step.micro : 0) : nullptr, slot};
}

} // namespace zc
