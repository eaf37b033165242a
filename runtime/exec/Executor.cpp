#include "runtime/exec/Executor.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/SignalStack.h"
#include "runtime/device/Timeline.h"
#include "runtime/exec/PreparedPlan.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace zc {

namespace {

int64_t now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t(1000000000) + time.tv_nsec;
}

/// The newest events of one queue, in memory allocated once.
class TraceRing {
public:
  explicit TraceRing(size_t capacity) { events.resize(capacity); }
  bool isOn() const { return !events.empty(); }
  void add(const TraceEvent &event) { events[count++ % events.size()] = event; }
  void drainInto(std::vector<TraceEvent> &out) {
    for (uint64_t i = count > events.size() ? count - events.size() : 0; i < count; ++i)
      out.push_back(events[i % events.size()]);
    count = 0;
  }

private:
  std::vector<TraceEvent> events;
  uint64_t count = 0;
};

/// Libraries behind kernels may throw; nothing may leave a queue's thread.
Error threw(const std::exception &exception) {
  return makeError(Code::internal, 654, std::string("a kernel threw: ") + exception.what());
}
Status runKernel(const PreparedStep &step, const StepContext &context) {
  try {
    return step.kernel->run(step.operands, context);
  } catch (const std::exception &exception) {
    return threw(exception);
  }
}

/// What both devices have in common; they differ in who runs the steps of a section when.
class BaseExecutor : public RankExecutor {
public:
  BaseExecutor(const planpb::Plan &plan, const ExecutorOptions &options, Communicator &communicator)
      : prepared(plan), communicator(communicator), agree(options.agree) {
    for (unsigned queue = 0; queue < kNumQueues; ++queue)
      rings.emplace_back(options.traceCapacity);
  }
  Status prepare(const ExecutorOptions &options, const KernelRegistry &registry, InputLoader &loader) {
    return prepared.prepare(options, communicator, registry, loader);
  }

  Status readSlice(uint32_t slice, uint64_t offset, void *to, uint64_t bytes) override {
    return prepared.memory.read(slice, offset, to, bytes);
  }
  Status writeSlice(uint32_t slice, uint64_t offset, const void *from, uint64_t bytes) override {
    return prepared.memory.write(slice, offset, from, bytes);
  }
  const planpb::Plan &plan() const override { return prepared.plan; }
  int rank() const override { return communicator.rank(); }
  double loss() const override {
    if (plan().forward_only())
      return std::numeric_limits<double>::quiet_NaN();
    const auto *sums = static_cast<const double *>(prepared.memory.operand(plan().metrics().loss_slice(), 0));
    double terms = static_cast<double>(prepared.mesh.dataDegree()) * plan().accumulation();
    return sums[0] / (plan().metrics().weighted() ? sums[1] : terms);
  }
  std::optional<double> gradNorm() const override {
    int32_t slice = plan().metrics().grad_norm_slice();
    if (slice < 0 || plan().forward_only())
      return std::nullopt;
    return *static_cast<const float *>(prepared.memory.operand(static_cast<uint32_t>(slice), 0));
  }
  std::vector<ArenaUse> arenas() const override { return prepared.memory.uses(); }
  Traffic traffic() const override {
    Traffic traffic = communicator.traffic();
    prepared.memory.addTraffic(traffic);
    return traffic;
  }
  const std::vector<std::string> &notes() const override { return prepared.memory.notes; }
  std::vector<TraceEvent> takeTrace() override {
    std::vector<TraceEvent> events;
    for (TraceRing &ring : rings)
      if (ring.isOn())
        ring.drainInto(events);
    std::sort(events.begin(), events.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
    return events;
  }

protected:
  Status execute(const PreparedStep &step, uint32_t section, const StepContext &context) {
    int64_t begin = tracedNow(step.queue);
    Status status = runKernel(step, context);
    trace(step, section, context, begin);
    return status.ok() ? status : locate(status.error(), prepared.plan, section, step.index);
  }

  int64_t tracedNow(unsigned queue) const { return rings[queue].isOn() ? now() : 0; }
  /// Notes that the step took from `begin` until now, which it gives.
  int64_t trace(const PreparedStep &step, uint32_t section, const StepContext &context, int64_t begin) {
    TraceRing &ring = rings[step.queue];
    if (!ring.isOn())
      return 0;
    int64_t end = now();
    ring.add({begin, end, context.step, static_cast<uint32_t>(context.micro), step.index, static_cast<uint8_t>(section),
              step.queue});
    return end;
  }

  /// The steps that publish, one after the other; while no queue is at work.
  Status publish(const StepContext &context) {
    StepContext now = context;
    now.micro = prepared.plan.accumulation() - 1;
    for (const PreparedStep &step : prepared.steps[1])
      if (step.publishes)
        ZC_RETURN_IF_ERROR(execute(step, 1, now));
    return {};
  }

  /// Where no step of the plan carries the agreement.
  Status agreeNow() {
    if (!agree)
      return {};
    if (prepared.stepsPerIteration(planpb::COMM) > 0) // whose tail may be under way: no collectives beside it
      ZC_RETURN_IF_ERROR(drain());
    Status status = agree();
    if (!status.ok())
      communicator.abort(status.error());
    return status;
  }

  PreparedPlan prepared;
  Communicator &communicator;
  std::function<Status()> agree;
  std::vector<TraceRing> rings; // per queue
};

/// Everything inline, in plan order: needs no waits, because they point backward.
class SyncExecutor : public BaseExecutor {
public:
  using BaseExecutor::BaseExecutor;
  Status runStep(const StepContext &context) override {
    StepContext now = context;
    setFaultContext(communicator.rank(), now.step);
    const uint32_t micros = prepared.plan.accumulation();
    for (now.micro = micros - microExecutions(prepared.plan); now.micro < micros; ++now.micro)
      ZC_RETURN_IF_ERROR(runSection(0, now));
    now.micro = prepared.plan.accumulation() - 1;
    ZC_RETURN_IF_ERROR(runSection(1, now));
    if (prepared.publishesLast(now.step))
      if (Status status = publish(now); !status.ok()) {
        communicator.abort(status.error());
        return status;
      }
    return prepared.agreesInStep ? Status() : agreeNow();
  }
  Status drain() override { return {}; }

private:
  Status runSection(uint32_t section, const StepContext &context) {
    for (const PreparedStep &step : prepared.steps[section]) {
      if (step.publishes && prepared.publishesLast(context.step))
        continue;
      if (Status status = execute(step, section, context); !status.ok()) {
        communicator.abort(status.error());
        return status;
      }
    }
    return {};
  }
};

/// A thread per queue; the first queue with steps is served by the caller, which would only wait otherwise. A step is
/// over for the caller when its metrics are there: what queues still have to do of it runs beside the next one, as far
/// as the plan's waits allow.
class CpuExecutor : public BaseExecutor {
public:
  using BaseExecutor::BaseExecutor;
  ~CpuExecutor() override { join(); }

  /// After prepare.
  void start() {
    for (unsigned queue = 0; queue < kNumQueues; ++queue)
      if (prepared.stepsPerIteration(queue) > 0)
        active.push_back(queue);
    for (size_t i = 1; i < active.size(); ++i)
      threads.emplace_back([this, queue = active[i]] { serve(queue); });
  }

  Status runStep(const StepContext &step) override {
    bool isGoing = iteration < kInFlight || finished(iteration + 1 - kInFlight);
    if (isGoing) {
      ++iteration;
      contexts[iteration % kInFlight] = step;
      go.advance();
      if (!active.empty())
        runQueue(active.front(), iteration);
      isGoing = metricsKnown() && (!prepared.publishesLast(step.step) || publishLast(step));
    }
    if (!isGoing)
      return failed();
    return prepared.agreesInStep ? Status() : agreeNow();
  }

  Status drain() override { return finished(iteration) ? Status() : failed(); }

private:
  static constexpr uint64_t kInFlight = 2; ///< the current iteration and the one before

  void serve(unsigned queue) {
    SignalStack stack;
    for (uint64_t mine = 1; go.waitFor(mine); ++mine)
      runQueue(queue, mine);
  }

  void runQueue(unsigned queue, uint64_t mine) {
    StepContext now = contexts[mine % kInFlight];
    setFaultContext(communicator.rank(), now.step);
    int64_t micros = prepared.plan.accumulation(), executions = microExecutions(prepared.plan);
    int64_t update = static_cast<int64_t>(mine) - 1;
    auto run = [&](uint32_t section, int64_t index) {
      return queuesCopies(queue, section, now) ? runCopies(queue, section, index, now)
                                               : runSection(queue, section, index, now);
    };
    for (int64_t i = 0; i < executions; ++i) {
      now.micro = micros - executions + i;
      if (!run(0, update * executions + i))
        return;
    }
    now.micro = micros - 1;
    run(1, update);
  }

  bool queuesCopies(unsigned queue, uint32_t section, const StepContext &now) const {
    const auto &steps = prepared.queues[section][queue];
    return !prepared.publishesLast(now.step) &&
           std::all_of(steps.begin(), steps.end(), [](const PreparedStep *step) { return step->copy; });
  }

  /// Execution `index` of a section on one queue; false after a failure anywhere on this rank.
  bool runSection(unsigned queue, uint32_t section, int64_t index, const StepContext &now) {
    for (const PreparedStep *step : prepared.queues[section][queue]) {
      if (!waitForTurn(*step, section, index) || done[queue].hasFailed())
        return false;
      if (step->publishes && prepared.publishesLast(now.step)) {
        done[queue].advance(); // others may wait for what this one waited for
        continue;
      }
      if (Status status = execute(*step, section, now); !status.ok()) {
        fail(status.error());
        return false;
      }
      done[queue].advance();
    }
    return true;
  }

  bool waitForTurn(const PreparedStep &step, uint32_t section, int64_t index) {
    for (uint32_t i = 0; i < step.numWaits; ++i)
      if (!done[step.waits[i].queue].waitFor(prepared.target(step.waits[i], section, index)))
        return false;
    return true;
  }
  bool hasTurn(const PreparedStep &step, uint32_t section, int64_t index) const {
    for (uint32_t i = 0; i < step.numWaits; ++i)
      if (!done[step.waits[i].queue].hasReached(prepared.target(step.waits[i], section, index)))
        return false;
    return true;
  }

  /// As runSection, of steps that are copies: while the oldest is under way, the next ones begin as soon as their waits
  /// are over, so that a disk is not idle between two steps.
  bool runCopies(unsigned queue, uint32_t section, int64_t index, const StepContext &now) {
    const std::vector<const PreparedStep *> &steps = prepared.queues[section][queue];
    size_t begun = 0;
    auto beginOthers = [&] {
      for (; begun < steps.size() && hasTurn(*steps[begun], section, index); ++begun) {
        if (!steps[begun]->copy->mayBegin(steps[begun]->operands))
          return;
        steps[begun]->copy->begin(steps[begun]->operands);
      }
    };
    int64_t since = 0; // a copy's time counts from the end of the one before
    for (size_t first = 0; first < steps.size(); ++first) {
      const PreparedStep &step = *steps[first];
      bool goesOn = (begun > first || waitForTurn(step, section, index)) && !done[queue].hasFailed();
      if (begun == first)
        since = tracedNow(queue);
      Status status;
      try {
        if (goesOn)
          beginOthers();
        for (; goesOn && !step.copy->isOldestDone(); beginOthers())
          step.copy->progress();
        if (goesOn || begun > first)
          status = step.copy->finish();
      } catch (const std::exception &exception) {
        status = threw(exception);
      }
      if (!goesOn) {
        if (begun > first + 1)
          continue; // nothing may be left under way
        return false;
      }
      since = trace(step, section, now, since);
      if (!status.ok()) {
        fail(locate(status.error(), prepared.plan, section, step.index));
        return false;
      }
      done[queue].advance();
    }
    return true;
  }

  bool publishLast(const StepContext &step) {
    if (!finished(iteration))
      return false;
    Status status = publish(step);
    if (!status.ok())
      fail(status.error());
    return status.ok();
  }

  /// Waits until the steps that write the metrics of the current iteration are done.
  bool metricsKnown() {
    for (const PreparedWait &writer : prepared.metricWriters)
      if (!done[writer.queue].waitFor(prepared.target(writer, 1, static_cast<int64_t>(iteration) - 1)))
        return false;
    return active.empty() || !done[active.front()].hasFailed();
  }
  /// Waits until all queues are through iteration `last` (from 1).
  bool finished(uint64_t last) {
    for (unsigned queue : active)
      if (!done[queue].waitFor(last * prepared.stepsPerIteration(queue)))
        return false;
    return true;
  }

  void fail(const Error &error) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!failure)
        failure = error; // before the abort: what other queues then see is its echo
    }
    communicator.abort(error);
    for (Timeline &timeline : done)
      timeline.fail();
  }
  /// The failure; nobody is at work any more.
  Status failed() {
    join();
    std::lock_guard<std::mutex> lock(mutex);
    return failure ? Status(*failure) : Status();
  }
  void join() {
    go.fail();
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }

  std::vector<unsigned> active; // queues with steps
  std::vector<std::thread> threads;
  std::array<Timeline, kNumQueues> done; // steps finished, per queue
  Timeline go;                           // iterations asked for
  uint64_t iteration = 0;
  std::array<StepContext, kInFlight> contexts; // by iteration
  std::mutex mutex;                            // of `failure`
  std::optional<Error> failure;
};

} // namespace

std::optional<DeviceKind> deviceFromName(std::string_view name) {
  if (name == "sync")
    return DeviceKind::sync;
  if (name == "cpu")
    return DeviceKind::cpu;
  return std::nullopt;
}

Result<std::unique_ptr<RankExecutor>> prepareRank(const planpb::Plan &plan, const ExecutorOptions &options,
                                                  Communicator &communicator, const KernelRegistry &registry,
                                                  InputLoader &loader) {
  if (options.device == DeviceKind::sync) {
    auto executor = std::make_unique<SyncExecutor>(plan, options, communicator);
    ZC_RETURN_IF_ERROR(executor->prepare(options, registry, loader));
    return std::unique_ptr<RankExecutor>(std::move(executor));
  }
  auto executor = std::make_unique<CpuExecutor>(plan, options, communicator);
  ZC_RETURN_IF_ERROR(executor->prepare(options, registry, loader));
  executor->start();
  return std::unique_ptr<RankExecutor>(std::move(executor));
}

} // namespace zc
