#include "runtime/train/Train.h"

#include "runtime/base/Failpoint.h"
#include "runtime/exec/Job.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Schedule.h"
#include "runtime/train/TraceFile.h"
#include "runtime/train/Weights.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

namespace zc::train {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What all ranks of a run share; written before they start, except where said.
struct Run {
  Run(const planpb::Plan &plan, const RunOptions &options, const RunControl &control, RunObserver &observer)
      : plan(plan), options(options), control(control), observer(observer) {}

  Status prepare();
  Status prepareData();
  Status prepareFolder();
  Status prepareWeights();

  const planpb::Plan &plan;
  const RunOptions &options;
  const RunControl &control;
  RunObserver &observer;

  KernelRegistry registry;
  DeviceKind device = DeviceKind::cpu;
  std::unique_ptr<data::InputSource> source;
  std::optional<InitialValues> values; ///< of a fresh start
  std::optional<Manifest> resumed;
  Manifest manifest; ///< what checkpoints of this run say
  Schedule schedule;
  RunFolder folder;
  MetricsFile metrics;
  RunSummary summary;
  uint64_t seed = 0;

  RunReport report;            ///< rank 0's
  std::optional<Error> ending; ///< rank 0's: why the run ended early, though no rank failed
  TraceFile trace;             ///< has its own lock
};

Status Run::prepare() {
  ZC_RETURN_IF_ERROR(prepareData());
  // A wrong model must not leave a folder behind; only where a checkpoint may replace it, it is looked at later.
  if (options.resume.empty())
    ZC_RETURN_IF_ERROR(prepareWeights());
  ZC_RETURN_IF_ERROR(prepareFolder());
  if (!values && !resumed)
    ZC_RETURN_IF_ERROR(prepareWeights());
  ZC_RETURN_IF_ERROR(metrics.open(folder.name() + "/metrics.jsonl", summary.firstStep - 1));
  registerCpuKernels(registry);
  return Status::success();
}

/// The device, the data and what follows from them: how many steps, which learning rates.
Status Run::prepareData() {
  auto kind = deviceFromName(options.device);
  if (!kind)
    return makeError(options.device == "cuda" ? Code::unsupported : Code::usage, 940,
                     "device \"" + options.device + "\" is not in this build", "--device", "one of cpu, sync");
  device = *kind;
  for (const planpb::Arena &arena : plan.arenas())
    if (arena.tier() == planpb::NVME && arena.bytes() > 0)
      ZC_RETURN_IF_ERROR(NvmeArena::check(options.nvme, arena.bytes()));
  data::DataOptions dataOptions = options.data;
  seed = options.seed.value_or(plan.seed());
  dataOptions.seed = seed;
  data::BatchSpec batch = batchOf(plan);
  auto opened = data::openSource(dataOptions, batch);
  if (!opened)
    return opened.error();
  source = std::move(*opened);

  summary.samplesPerStep = batch.samplesPerStep();
  summary.tokensPerSample = source->tokensPerSample();
  summary.worldSize = int(plan.world_size());
  int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  summary.threads = options.threads > 0 ? options.threads : std::max(1, cores / summary.worldSize);
  double epochs = options.epochs > 0 ? options.epochs : 1;
  summary.steps = options.steps > 0
                      ? options.steps
                      : int64_t(std::ceil(epochs * double(source->samples()) / double(summary.samplesPerStep)));
  if (double(summary.steps) * double(summary.samplesPerStep) > 0x1p60)
    return makeError(Code::usage, 943, "the run would take more than 2^60 samples", "--steps");
  auto made =
      Schedule::create(options.schedule, options.lr.value_or(plan.optimizer().lr()), options.warmup, summary.steps);
  if (!made)
    return made.error();
  schedule = *made;
  return Status::success();
}

/// The folder, held from now on, and the checkpoint to continue from.
Status Run::prepareFolder() {
  manifest = describeRun(plan, seed, source->samples(), options.data.shuffle);
  manifest.planHash = planHash(plan);
  auto locked = RunFolder::open(outputFolder(options, plan));
  if (!locked)
    return locked.error();
  folder = std::move(*locked);
  summary.out = folder.name();
  std::vector<std::string> skipped;
  auto found = findCheckpoint(folder.name(), options.resume, manifest, skipped);
  if (!found)
    return found.error();
  for (const std::string &each : skipped)
    observer.note("not usable, passed over: " + each);
  resumed = std::move(*found);
  if (resumed) {
    summary.firstStep = resumed->step + 1;
    observer.note("continuing after step " + std::to_string(resumed->step) + " of \"" + resumed->folder + "\"");
  }
  return Status::success();
}

/// The weights of a fresh start, the model's or the user's; a checkpoint's are read by the ranks.
Status Run::prepareWeights() {
  auto initial =
      options.weights.empty() ? InitialValues::fromModel(plan) : InitialValues::fromSafetensors(plan, options.weights);
  if (!initial)
    return initial.error();
  values = std::move(*initial);
  return Status::success();
}

/// Gives the executor the run's data.
class RankLoader : public InputLoader {
public:
  RankLoader(const data::InputSource &source, int rank) : source(source), rank(rank) {}
  Status load(uint32_t input, const StepContext &context, void *destination, uint64_t) override {
    return source.load(input, context.step - 1, context.micro, rank, destination);
  }

private:
  const data::InputSource &source;
  int rank;
};

/// One rank's part of a run.
class Rank {
public:
  Rank(Run &run, Communicator &communicator)
      : run(run), communicator(communicator), loader(*run.source, communicator.rank()) {}

  Status main();

private:
  bool leads() const { return communicator.rank() == 0; }
  Status loop();
  Status step(int64_t step);
  /// Rank 0's decision, on all ranks.
  Status decide(bool &stop);
  Status save(const std::string &name, int64_t step);
  Status finish();

  Run &run;
  Communicator &communicator;
  RankLoader loader;
  std::unique_ptr<RankExecutor> executor;
  StepRecord record;
  bool notFinite = false;
};

Status Rank::main() {
  ExecutorOptions options;
  options.device = run.device;
  options.threads = run.summary.threads;
  options.seed = run.seed;
  options.traceCapacity = run.trace.capacity(run.plan, run.options);
  options.nvme = run.options.nvme;
  options.links = run.options.links;
  auto prepared = prepareRank(run.plan, options, communicator, run.registry, loader);
  if (!prepared)
    return prepared.error();
  executor = std::move(*prepared);
  if (leads())
    for (const std::string &note : executor->notes())
      run.observer.note(note);
  ZC_RETURN_IF_ERROR(run.resumed ? restoreCheckpoint(*executor, *run.resumed) : loadWeights(*executor, *run.values));
  ZC_RETURN_IF_ERROR(communicator.barrier());
  if (leads())
    run.observer.starting(run.summary);
  ZC_RETURN_IF_ERROR(loop());
  return notFinite ? Status::success() : finish();
}

static void addDifference(Traffic &sum, const Traffic &before, const Traffic &after) {
  sum.gather += after.gather - before.gather;
  sum.reduceScatter += after.reduceScatter - before.reduceScatter;
  sum.allReduce += after.allReduce - before.allReduce;
  sum.interNode += after.interNode - before.interNode;
  sum.intraNode += after.intraNode - before.intraNode;
  sum.h2d += after.h2d - before.h2d;
  sum.d2h += after.d2h - before.d2h;
  sum.nvmeRead += after.nvmeRead - before.nvmeRead;
  sum.nvmeWrite += after.nvmeWrite - before.nvmeWrite;
}

Status Rank::step(int64_t step) {
  StepContext context;
  context.step = step;
  context.learningRate = run.schedule.at(step);
  setFaultContext(communicator.rank(), step);
  if (auto fault = failpoint("step.begin"); fault && fault->kind == FaultAction::Kind::error)
    return makeError(Code::other, 944,
                     "step " + std::to_string(step) + " was told to fail: " + std::strerror(fault->errnum),
                     "ZERO_FAULT");
  Traffic before = executor->traffic();
  uint64_t allocated = run.control.allocations ? run.control.allocations() : 0;
  double begin = now();
  ZC_RETURN_IF_ERROR(executor->runStep(context));
  record.seconds = now() - begin;
  record.step = step;
  record.loss = executor->loss();
  record.gradNorm = executor->gradNorm();
  record.lr = context.learningRate;
  record.samples = run.summary.samplesPerStep;
  notFinite = !std::isfinite(record.loss);
  if (!leads())
    return Status::success();
  RunReport &report = run.report;
  if (run.control.allocations && step > run.summary.firstStep + 1)
    report.steadyAllocations = report.steadyAllocations.value_or(0) + (run.control.allocations() - allocated);
  // Saving and agreeing move bytes as well; the report is about the steps.
  addDifference(report.traffic, before, executor->traffic());
  report.last = record;
  report.seconds += record.seconds;
  report.samples += record.samples;
  ++report.steps;
  run.metrics.append(record);
  run.observer.step(record);
  return Status::success();
}

Status Rank::decide(bool &stop) {
  uint8_t wish = run.control.stop && run.control.stop->load(std::memory_order_relaxed) > 0;
  if (communicator.worldSize() > 1)
    ZC_RETURN_IF_ERROR(communicator.broadcast({&wish, 1, 0}));
  stop = wish != 0;
  return Status::success();
}

Status Rank::loop() {
  for (int64_t step = run.summary.firstStep; step <= run.summary.steps; ++step) {
    ZC_RETURN_IF_ERROR(this->step(step));
    run.trace.collect(run.options, *executor, step);
    if (notFinite) {
      if (leads())
        run.ending = makeError(Code::numeric, 941, "the loss is not finite at step " + std::to_string(step), "",
                               "lower --lr, or clip gradients with zero-compile --clip-grad-norm");
      return Status::success();
    }
    bool stop = false;
    ZC_RETURN_IF_ERROR(decide(stop));
    stop &= step < run.summary.steps;
    bool due = run.options.saveEvery > 0 && step % run.options.saveEvery == 0;
    if (due || stop)
      ZC_RETURN_IF_ERROR(save("step-" + std::to_string(step), step));
    if (stop) {
      if (leads())
        run.ending =
            makeError(Code::preempted, 942, "stopped after step " + std::to_string(step) + ", its state is saved",
                      run.folder.name(), "continue with --resume auto");
      return Status::success();
    }
  }
  return Status::success();
}

Status Rank::save(const std::string &name, int64_t step) {
  Manifest manifest = run.manifest;
  manifest.step = step;
  ZC_RETURN_IF_ERROR(
      saveCheckpoint(*executor, communicator, std::move(manifest), run.folder.name(), name, run.options.keep));
  if (leads())
    run.observer.note("saved \"" + run.folder.name() + "/" + name + "\"");
  return Status::success();
}

Status Rank::finish() {
  if (leads()) {
    run.report.arenas = executor->arenas();
    run.report.tokens = run.report.samples * run.summary.tokensPerSample;
    run.report.out = run.folder.name();
    run.report.final = run.folder.name() + "/final";
  }
  // A stopped run has saved its state already. `ending` is rank 0's; the others were told by the same broadcast.
  bool early = record.step < run.summary.steps && record.step != 0;
  return early ? Status::success() : save("final", std::max(run.summary.steps, run.summary.firstStep - 1));
}

} // namespace

Result<RunReport> train(const planpb::Plan &plan, const RunOptions &options, const RunControl &control,
                        RunObserver &observer) {
  Run run(plan, options, control, observer);
  ZC_RETURN_IF_ERROR(run.prepare());
  ZC_RETURN_IF_ERROR(runJob(int(plan.world_size()), int(plan.ranks_per_node()),
                            [&run](Communicator &communicator) { return Rank(run, communicator).main(); }));
  if (run.metrics.failure() != 0)
    observer.note(std::string("metrics.jsonl is incomplete: ") + std::strerror(run.metrics.failure()));
  ZC_RETURN_IF_ERROR(run.trace.write(plan, run.folder.name() + "/trace.json"));
  if (run.ending)
    return *run.ending;
  return std::move(run.report);
}

} // namespace zc::train
