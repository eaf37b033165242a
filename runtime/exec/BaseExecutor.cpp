#include "runtime/exec/BaseExecutor.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "runtime/device/Caught.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc {

void TraceRing::drainInto(std::vector<TraceEvent> &out) {
  for (uint64_t i = count > events.size() ? count - events.size() : 0; i < count; ++i)
    out.push_back(events[i % events.size()]);
  count = 0;
}

BaseExecutor::BaseExecutor(const planpb::Plan &plan, const ExecutorOptions &options, Communicator &communicator)
    : prepared(plan, options.memory), communicator(communicator), traceFirst(options.traceFirst),
      traceLast(options.traceLast), agree(options.agree) {
  for (unsigned queue = 0; queue < kNumQueues; ++queue) {
    rings.emplace_back(options.traceCapacity);
    working[queue] =
        std::make_unique<Working>(communicator.rank(), [this](uint32_t what) { return nameOf(what & 1, what >> 1); });
  }
}

std::string BaseExecutor::kernelAndNode(uint32_t section, uint32_t index) const {
  const planpb::Step &step = stepOf(prepared.plan, {section, 0, index});
  auto text = [this](uint32_t number) { return "\"" + prepared.plan.strings(int(number)) + "\""; };
  return text(step.kernel()) + " of node " + text(step.node());
}

std::string BaseExecutor::nameOf(uint32_t section, uint32_t index) const {
  return "computing " + kernelAndNode(section, index);
}

std::optional<double> BaseExecutor::loss() const {
  if (plan().forward_only())
    return std::nullopt;
  const auto *sums = static_cast<const double *>(metric(plan().metrics().loss_slice()));
  double terms = static_cast<double>(prepared.mesh.dataDegree()) * plan().accumulation();
  if (!plan().metrics().weighted())
    return sums[0] / terms;
  return sums[1] == 0 ? std::nullopt : std::optional(sums[0] / sums[1]);
}

std::optional<double> BaseExecutor::gradNorm() const {
  int32_t slice = plan().metrics().grad_norm_slice();
  if (slice < 0 || plan().forward_only())
    return std::nullopt;
  return *static_cast<const float *>(metric(static_cast<uint32_t>(slice)));
}

Traffic BaseExecutor::traffic() const {
  Traffic traffic = communicator.traffic();
  prepared.memory.addTraffic(traffic);
  return traffic;
}

std::vector<TraceEvent> BaseExecutor::takeTrace() {
  std::vector<TraceEvent> events;
  for (TraceRing &ring : rings)
    if (ring.isOn())
      ring.drainInto(events);
  std::sort(events.begin(), events.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
  return events;
}

Status BaseExecutor::execute(const PreparedStep &step, uint32_t section, const StepContext &context) {
  int64_t begin = tracedNow(step.queue);
  // Collectives have the flight recorder, and faults of their own.
  Working *sign = step.isCollective ? nullptr : working[step.queue].get();
  if (sign)
    sign->begin(step.index << 1 | section, context.step);
  Status status = caught([&] {
    if (auto fault = sign ? failpoint("kernel.run") : std::nullopt; fault && fault->kind == FaultAction::Kind::error)
      return Status(makeError(Code::other, 661, "the kernel was told to fail", "", "ZERO_FAULT is set"));
    return step.kernel->run(step.operands, context);
  });
  if (sign)
    sign->end();
  trace(step, section, context, begin);
  return status.ok() ? status : locate(status.error(), prepared.plan, section, step.index);
}

int64_t BaseExecutor::tracedNow(unsigned queue) const { return rings[queue].isOn() ? nanoseconds() : 0; }

int64_t BaseExecutor::trace(const PreparedStep &step, uint32_t section, const StepContext &context, int64_t begin) {
  TraceRing &ring = rings[step.queue];
  if (!ring.isOn())
    return 0;
  int64_t end = nanoseconds();
  if (isTraced(context.step))
    ring.add({begin, end, context.step, static_cast<uint32_t>(context.micro), step.index, static_cast<uint8_t>(section),
              step.queue});
  return end;
}

Status BaseExecutor::publish(const StepContext &context) {
  StepContext now = context;
  now.micro = prepared.plan.accumulation() - 1;
  for (const PreparedStep &step : prepared.steps[1])
    if (step.publishes) {
      uncounted.fetch_add(1, std::memory_order_relaxed);
      ZC_RETURN_IF_ERROR(execute(step, 1, now));
    }
  return {};
}

Status BaseExecutor::agreeNow() {
  if (!agree)
    return {};
  if (prepared.stepsPerIteration(planpb::COMM) > 0) // whose tail may be under way: no collectives beside it
    ZC_RETURN_IF_ERROR(drain());
  Status status = agree();
  if (!status.ok())
    communicator.abort(status.error());
  return status;
}

} // namespace zc
