//===- StreamExecutor.cpp - one thread issues, streams and the host's queues work ------===//
//
// Waits point backward in plan order, so one loop can issue everything. A wait between two streams is an event,
// recorded behind steps that a step of another stream waits for. It is always the last record that is waited for: that
// of the execution which is meant, or of a later one that has been issued as well. A stream waits for the host's queue
// by its timeline; for the host, a stream advances its own timeline where somebody waits for it, and at the end of a
// section.
//
// Steps between which a stream has nothing to do with others, nor with the host, are enqueued in one go (StreamRuns.h):
// the first time one by one, the second time they are captured, and from then on they are one graph. What changes from
// execution to execution they find in contexts (StreamContexts.h).
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/StreamExecutor.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "runtime/device/Caught.h"
#include "runtime/exec/QueueExecutor.h"
#include "runtime/exec/StreamContexts.h"
#include "runtime/exec/StreamRuns.h"
#include "runtime/exec/StreamTrace.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc {

namespace {

class StreamExecutor : public QueueExecutor {
public:
  StreamExecutor(std::unique_ptr<Device> device, const planpb::Plan &plan, const ExecutorOptions &options,
                 Communicator &communicator)
      : QueueExecutor(plan, options, communicator), device(std::move(device)),
        captures(options.graphs && this->device->hasGraphs()), perStep(plan.accumulation()),
        inPlace(*this->device, perStep, kInFlight),
        kernels(*this->device, communicator, inPlace.slots(),
                [this](uint32_t number, Error error) { fail(locatedAt(number, std::move(error))); }) {
    communicator.whenLost(this, [this](const Error &error) { fail(error); });
  }
  ~StreamExecutor() override {
    join();
    communicator.whenLost(this, nullptr);
  }

  Status prepare(const ExecutorOptions &options, const KernelRegistry &registry, InputLoader &loader);
  /// Once prepared.
  void tell(const std::string &note) { prepared.notes.push_back(note); }

protected:
  void runOwn(uint64_t mine) override;
  bool foundFault() override;
  void join() override;
  Status publish(const StepContext &context) override;
  const void *metric(uint32_t slice) const override;
  std::vector<TraceEvent> takeTrace() override;
  std::optional<double> issueSeconds() const override {
    return iteration > kUnsteady ? std::optional(double(issuing) * 1e-9 / double(iteration - kUnsteady)) : std::nullopt;
  }

  std::vector<std::string> lateNotes() const override { return refusals; }

private:
  /// What belongs to a step besides what is prepared for all executors.
  struct Issued {
    std::unique_ptr<Event> event; ///< recorded behind it; null: no stream waits for it
    uint64_t advance = 0;         ///< steps of its queue that are done with it; 0: the host does not ask
    int metric = -1;              ///< of `metrics`: read behind it
  };
  /// A number of the step that is read on the host.
  struct MetricCopy {
    uint32_t slice;
    void *pinned;
    uint64_t bytes;
  };
  /// Argument of a call in a stream.
  struct Advance {
    Timeline *timeline;
    uint64_t steps;
  };

  static constexpr uint64_t kUnsteady = 2; ///< iterations in which runs are captured

  static bool isOnStream(unsigned queue) { return isStreamQueue(static_cast<planpb::Queue>(queue)); }
  /// Kernels are numbered in the order of steps, those of the update last.
  Error locatedAt(uint32_t number, Error error) const {
    bool isUpdate = number >= numMicro;
    return locate(std::move(error), prepared.plan, isUpdate, isUpdate ? number - numMicro : number);
  }
  Error errorOf(const Device::Fault &fault) const {
    return fault.kernel ? locatedAt(*fault.kernel, fault.error) : fault.error;
  }

  Status prepareTimelines();
  Status prepareEvents();
  Status prepareMetrics();
  void prepareAdvances();
  void prepareRuns();
  Status beginIteration(uint64_t mine);
  bool waitForInputs(int64_t index);
  Status issueSection(uint32_t section, int64_t index, uint64_t mine, int64_t micro);
  Status issueRun(StreamRun &run, uint32_t section, uint64_t mine, int64_t micro);
  Status capture(StreamRun &run, const std::function<Status()> &issueEach);
  Status issue(const PreparedStep &step, uint32_t section, const EnqueuedContext &context);
  Status issueWaits(const PreparedStep &step, uint32_t section, int64_t index);
  Status collectTrace(uint64_t mine);

  std::unique_ptr<Device> device;
  const bool captures;    ///< runs, into graphs
  const uint32_t perStep; ///< micro-steps of an iteration
  uint32_t numMicro = 0;  ///< steps of section 0
  StreamContexts inPlace; ///< `contexts` as streams read them
  StreamKernels kernels;
  QueueStreams streams;
  std::vector<Issued> issued[2];
  std::vector<StreamRun> runs[2];    // by their first step in plan order
  std::vector<std::string> refusals; // of captures: the first
  std::vector<MetricCopy> metrics;
  std::vector<Advance> advances[2]; // by step
  std::vector<PreparedWait> inputs; // the last of each stream's load_inputs
  std::optional<StreamTrace> trace; // where steps are traced
  std::function<Status()> agreement;
  int64_t issuing = 0; // ns, in all steady iterations
};

Status StreamExecutor::prepare(const ExecutorOptions &options, const KernelRegistry &registry, InputLoader &loader) {
  numMicro = static_cast<uint32_t>(prepared.plan.micro().steps_size());
  agreement = options.agree;
  ZC_RETURN_IF_ERROR(prepareTimelines());
  ZC_RETURN_IF_ERROR(prepared.prepare({options, communicator, registry, loader, &kernels}));
  for (std::string &note : device->notes())
    prepared.notes.push_back(std::move(note));
  device->nameKernels([this](uint32_t number) {
    bool isUpdate = number >= numMicro;
    return nameOf(isUpdate, isUpdate ? number - numMicro : number);
  });
  ZC_RETURN_IF_ERROR(inPlace.prepare(prepared));
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    if (isOnStream(queue) && prepared.stepsPerIteration(queue) > 0) {
      Result<std::unique_ptr<Stream>> stream = device->makeStream();
      if (!stream)
        return stream.error();
      streams[queue] = std::move(*stream);
    }
  for (uint32_t section : {0u, 1u})
    issued[section].resize(prepared.steps[section].size());
  ZC_RETURN_IF_ERROR(prepareEvents());
  ZC_RETURN_IF_ERROR(prepareMetrics());
  prepareAdvances();
  prepareRuns();
  inputs = lastInputs(prepared);
  if (options.traceCapacity > 0)
    ZC_RETURN_IF_ERROR(trace.emplace(*device, inPlace.slots(), kInFlight).prepare(prepared));
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    if (!isOnStream(queue) && prepared.stepsPerIteration(queue) > 0)
      startThread(queue);
  return {};
}

/// Streams wait for the host's queues: their words go where a device can read them.
Status StreamExecutor::prepareTimelines() {
  constexpr uint64_t kLine = 64; // of a cache
  Result<void *> pinned = device->allocatePinned(kNumQueues * kLine);
  ZC_RETURN_IF_ERROR(pinned.status());
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    done[queue].countIn(*new (static_cast<char *>(*pinned) + queue * kLine) std::atomic<uint64_t>(0));
  return {};
}

Status StreamExecutor::prepareEvents() {
  for (uint32_t section : {0u, 1u})
    for (const PreparedStep &step : prepared.steps[section])
      for (uint32_t i = 0; isOnStream(step.queue) && i < step.numWaits; ++i) {
        const PreparedWait &wait = step.waits[i];
        if (!isOnStream(wait.queue) || wait.queue == step.queue)
          continue;
        Issued &other = issued[wait.section][prepared.queues[wait.section][wait.queue][wait.ordinal]->index];
        if (other.event)
          continue;
        Result<std::unique_ptr<Event>> event = device->makeEvent();
        if (!event)
          return event.error();
        other.event = std::move(*event);
      }
  return {};
}

/// A metric is what the last step in plan order that writes it leaves: all others come before that one.
Status StreamExecutor::prepareMetrics() {
  if (prepared.plan.forward_only())
    return {};
  std::vector<uint32_t> slices = {prepared.plan.metrics().loss_slice()};
  if (prepared.plan.metrics().grad_norm_slice() >= 0)
    slices.push_back(static_cast<uint32_t>(prepared.plan.metrics().grad_norm_slice()));
  for (uint32_t slice : slices) {
    if (tierOf(prepared.plan, slice) != planpb::DEVICE)
      continue;
    uint64_t bytes = prepared.plan.slices(static_cast<int>(slice)).bytes();
    Result<void *> pinned = device->allocatePinned(bytes);
    ZC_RETURN_IF_ERROR(pinned.status());
    Issued *last = nullptr;
    for (uint32_t section : {0u, 1u})
      for (int i = 0; i < sectionOf(prepared.plan, section).steps_size(); ++i)
        for (const planpb::Operand &operand : sectionOf(prepared.plan, section).steps(i).operands())
          if (operand.slice() == slice && operand.access() != planpb::READ)
            last = &issued[section][static_cast<size_t>(i)];
    if (last)
      last->metric = static_cast<int>(metrics.size());
    metrics.push_back({slice, *pinned, bytes});
  }
  return {};
}

/// The host asks for steps that its queues wait for, that write metrics, and that are the last of their queue.
void StreamExecutor::prepareAdvances() {
  for (uint32_t section : {0u, 1u})
    for (const PreparedStep &step : prepared.steps[section])
      for (uint32_t i = 0; !isOnStream(step.queue) && i < step.numWaits; ++i) {
        const PreparedWait &wait = step.waits[i];
        if (isOnStream(wait.queue))
          issued[wait.section][prepared.queues[wait.section][wait.queue][wait.ordinal]->index].advance = 1;
      }
  for (const PreparedWait &wait : prepared.metricWriters)
    if (isOnStream(wait.queue))
      issued[wait.section][prepared.queues[wait.section][wait.queue][wait.ordinal]->index].advance = 1;
  for (uint32_t section : {0u, 1u}) {
    advances[section].resize(prepared.steps[section].size());
    for (unsigned queue = 0; queue < kNumQueues; ++queue) {
      uint64_t since = 0;
      const std::vector<const PreparedStep *> &steps = prepared.queues[section][queue];
      for (const PreparedStep *step : steps) {
        Issued &own = issued[section][step->index];
        ++since;
        if (own.advance == 0 && step != steps.back())
          continue;
        own.advance = since;
        advances[section][step->index] = {&done[queue], since};
        since = 0;
      }
    }
  }
}

void StreamExecutor::prepareRuns() {
  for (uint32_t section : {0u, 1u})
    runs[section] = findRuns(prepared.steps[section], [&](const PreparedStep &step) {
      const Issued &own = issued[section][step.index];
      return own.event || own.advance > 0;
    });
}

/// Memory that execution `index` of the micro-step's load_inputs fills has been copied from. False after a failure.
bool StreamExecutor::waitForInputs(int64_t index) {
  index -= static_cast<int64_t>(StreamKernels::kInputsAhead);
  return std::all_of(inputs.begin(), inputs.end(), [&](const PreparedWait &input) {
    return index < 0 || done[input.queue].waitFor(prepared.target(input, 0, index));
  });
}

Status StreamExecutor::beginIteration(uint64_t mine) {
  // Who used its contexts last is through: runStep has waited for the iteration before the last.
  ZC_RETURN_IF_ERROR(collectTrace(mine));
  const StepContext &context = contexts[mine % kInFlight];
  if (isTraced(context.step))
    ZC_RETURN_IF_ERROR(trace->beginIteration(mine, *inPlace.control()));
  return inPlace.bring(mine, context, streams);
}

void StreamExecutor::runOwn(uint64_t mine) {
  setFaultContext(communicator.rank(), contexts[mine % kInFlight].step);
  int64_t micros = perStep, executions = microExecutions(prepared.plan), update = static_cast<int64_t>(mine) - 1;
  int64_t waited = 0;
  auto run = [&]() -> Status {
    ZC_RETURN_IF_ERROR(beginIteration(mine));
    for (int64_t i = 0; i < executions; ++i) {
      int64_t since = nanoseconds();
      if (!waitForInputs(update * executions + i))
        return {}; // whoever failed has told
      waited += nanoseconds() - since;
      ZC_RETURN_IF_ERROR(inPlace.enter(mine, micros - executions + i, streams)); // the update is in the last one
      ZC_RETURN_IF_ERROR(issueSection(0, update * executions + i, mine, micros - executions + i));
    }
    return issueSection(1, update, mine, micros - 1);
  };
  int64_t begin = nanoseconds();
  Status status = caught(run); // whoever waits for what is not issued must learn that before anything unwinds
  issuing += mine > kUnsteady ? nanoseconds() - begin - waited : 0;
  if (!status.ok())
    fail(status.error());
}

Status StreamExecutor::issueSection(uint32_t section, int64_t index, uint64_t mine, int64_t micro) {
  bool publishesLast = prepared.publishesLast(contexts[mine % kInFlight].step);
  for (StreamRun &run : runs[section]) {
    const PreparedStep &first = *run.steps.front(), &last = *run.steps.back();
    const Issued &own = issued[section][last.index];
    Stream &stream = *streams[first.queue];
    auto enqueue = [&]() -> Status {
      ZC_RETURN_IF_ERROR(issueWaits(first, section, index));
      if (!(first.publishes && publishesLast)) // others may wait for what this one waits for
        ZC_RETURN_IF_ERROR(issueRun(run, section, mine, micro));
      if (own.event)
        ZC_RETURN_IF_ERROR(stream.record(*own.event));
      if (own.advance == 0)
        return {};
      return stream.call(
          [](void *argument) {
            auto *advance = static_cast<Advance *>(argument);
            advance->timeline->advance(advance->steps);
          },
          &advances[section][last.index]);
    };
    if (Status status = enqueue(); !status.ok())
      return locate(status.error(), prepared.plan, section, first.index);
  }
  return {};
}

/// Once as it is, so that libraries have loaded what they need; then captured, once; then as a graph. Step by step
/// where steps are traced, and where the device cannot capture them.
Status StreamExecutor::issueRun(StreamRun &run, uint32_t section, uint64_t mine, int64_t micro) {
  Stream &stream = *streams[run.steps.front()->queue];
  auto issueEach = [&]() -> Status {
    for (const PreparedStep *step : run.steps)
      if (Status status = issue(*step, section, inPlace.of(*step, mine, micro)); !status.ok())
        return locate(status.error(), prepared.plan, section, step->index);
    return {};
  };
  if (!captures || run.isRefused || run.steps.size() == 1 || isTraced(contexts[mine % kInFlight].step) ||
      !std::exchange(run.isKnown, true))
    return issueEach();
  if (Status status = run.graph ? Status() : capture(run, issueEach); !status.ok()) {
    run.isRefused = true; // what is wrong with a step itself is found, and told, where it goes alone
    if (refusals.empty())
      refusals.push_back("steps are launched one by one where they cannot be captured as a graph: " +
                         status.error().message);
    return issueEach();
  }
  uncounted.fetch_add(run.steps.size(), std::memory_order_relaxed);
  Status status = stream.replay(*run.graph);
  if (!status.ok())
    status.error().note = "in a graph of " + std::to_string(run.steps.size()) +
                          " steps that begins there; --graphs off or --device cuda-sync finds the step";
  return status;
}

Status StreamExecutor::capture(StreamRun &run, const std::function<Status()> &issueEach) {
  Stream &stream = *streams[run.steps.front()->queue];
  ZC_RETURN_IF_ERROR(stream.beginCapture());
  Status status = caught([&] { return issueEach(); }); // what is captured comes to an end
  Result<std::unique_ptr<Graph>> graph = stream.endCapture();
  ZC_RETURN_IF_ERROR(status);
  ZC_RETURN_IF_ERROR(graph.status());
  run.graph = std::move(*graph);
  return {};
}

Status StreamExecutor::issueWaits(const PreparedStep &step, uint32_t section, int64_t index) {
  Stream &stream = *streams[step.queue];
  for (uint32_t i = 0; i < step.numWaits; ++i) {
    const PreparedWait &wait = step.waits[i];
    uint64_t target = prepared.target(wait, section, index);
    if (target == 0 || wait.queue == step.queue)
      continue;
    if (isOnStream(wait.queue))
      ZC_RETURN_IF_ERROR(
          stream.wait(*issued[wait.section][prepared.queues[wait.section][wait.queue][wait.ordinal]->index].event));
    else
      ZC_RETURN_IF_ERROR(stream.wait(done[wait.queue], target));
  }
  return {};
}

Status StreamExecutor::issue(const PreparedStep &step, uint32_t section, const EnqueuedContext &context) {
  Stream &stream = *streams[step.queue];
  uncounted.fetch_add(1, std::memory_order_relaxed);
  if (step.agrees && kernels.meetWhenIssued())
    ZC_RETURN_IF_ERROR(agreement());
  else if (step.agrees)
    ZC_RETURN_IF_ERROR(stream.call(
        [](void *argument) {
          auto *self = static_cast<StreamExecutor *>(argument);
          if (Status status = caught([&] { return self->agreement(); }); !status.ok())
            self->fail(status.error());
        },
        this));
  auto enqueue = [&] { return step.onDevice->enqueue(step.operands, context, stream); };
  ZC_RETURN_IF_ERROR(isTraced(context.host->step) ? trace->around(iteration, step, section, context, stream, enqueue)
                                                  : enqueue());
  if (int i = issued[section][step.index].metric; i >= 0) {
    const MetricCopy &metric = metrics[static_cast<size_t>(i)];
    ZC_RETURN_IF_ERROR(stream.copy(metric.pinned, prepared.memory.operand(metric.slice, 0), metric.bytes));
  }
  return {};
}

/// Of the iteration that `mine` takes the place of, or of `mine`, which is over.
Status StreamExecutor::collectTrace(uint64_t mine) {
  return trace ? trace->collect(mine, [this](const TraceEvent &event) { rings[event.queue].add(event); }) : Status();
}

std::vector<TraceEvent> StreamExecutor::takeTrace() {
  for (uint64_t i = 0; i < kInFlight; ++i)
    (void)collectTrace(iteration + 1 + i); // the older one first; of a device that is lost there is no more
  return QueueExecutor::takeTrace();
}

Status StreamExecutor::publish(const StepContext &context) {
  StepContext now = context;
  now.micro = perStep - 1;
  for (const PreparedStep &step : prepared.steps[1]) {
    if (!step.publishes)
      continue;
    if (!isOnStream(step.queue)) {
      uncounted.fetch_add(1, std::memory_order_relaxed);
      ZC_RETURN_IF_ERROR(execute(step, 1, now));
      continue;
    }
    Status status = issue(step, 1, inPlace.of(step, iteration, now.micro));
    if (status.ok())
      status = streams[step.queue]->drain();
    if (!status.ok())
      return locate(status.error(), prepared.plan, 1, step.index);
  }
  if (std::optional<Device::Fault> fault = device->fault())
    return errorOf(*fault);
  return {};
}

const void *StreamExecutor::metric(uint32_t slice) const {
  for (const MetricCopy &metric : metrics)
    if (metric.slice == slice)
      return metric.pinned;
  return BaseExecutor::metric(slice);
}

bool StreamExecutor::foundFault() {
  std::optional<Device::Fault> fault = device->fault();
  if (fault)
    fail(errorOf(*fault));
  return fault.has_value();
}

void StreamExecutor::join() {
  QueueExecutor::join();
  auto drain = [&](Stream *stream) {
    if (Status status = stream ? stream->drain() : Status(); !status.ok())
      fail(status.error());
  };
  drain(inPlace.control());
  for (const std::unique_ptr<Stream> &stream : streams)
    drain(stream.get());
  communicator.awaitQuiet();
}

} // namespace

Result<std::unique_ptr<RankExecutor>> prepareOnDevice(std::unique_ptr<Device> device, const planpb::Plan &plan,
                                                      const ExecutorOptions &options, Communicator &communicator,
                                                      const KernelRegistry &registry, InputLoader &loader,
                                                      const std::string &note) {
  auto executor = std::make_unique<StreamExecutor>(std::move(device), plan, options, communicator);
  ZC_RETURN_IF_ERROR(executor->prepare(options, registry, loader));
  if (!note.empty())
    executor->tell(note);
  return std::unique_ptr<RankExecutor>(std::move(executor));
}

} // namespace zc
