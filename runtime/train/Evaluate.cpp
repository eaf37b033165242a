#include "runtime/train/Evaluate.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "runtime/exec/Job.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"
#include "runtime/train/EvalLoss.h"
#include "runtime/train/OutputTable.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace zc::train {

namespace {

/// What the ranks of one process share.
struct Evaluation : Session {
  Evaluation(const planpb::Plan &plan, const EvalOptions &options, const RunControl &control, RunObserver &observer)
      : Session(plan, options, control, observer), options(options) {}

  /// What needs no other rank; kept in `prepared`.
  void prepare() { prepared = prepareAll(); }

  const EvalOptions &options;
  EvalScope scope;
  std::optional<OutputTable> outputs; ///< stores from all ranks of the process
  EvalReport report;                  ///< rank 0's

protected:
  /// The folder and the file of outputs.
  Status open() override;
  /// The other processes learn the file of outputs.
  Status share(Communicator &communicator) override;
  /// Only several processes share one.
  std::string flight() const override {
    return summary.out.empty() || ranks.isWhole() ? std::string() : summary.out + "/" + kEvaluationFlight;
  }

private:
  Status prepareAll();
  Status prepareExtent();
};

Status Evaluation::prepareAll() {
  if (!plan.forward_only())
    return makeError(Code::mismatch, 952, "the plan trains: eval needs one without backward", options.plan,
                     "zero-compile --forward-only; or zero-run " + options.plan + " to train");
  ZC_RETURN_IF_ERROR(prepareJob());
  ZC_RETURN_IF_ERROR(prepareData());
  ZC_RETURN_IF_ERROR(prepareExtent());
  ZC_RETURN_IF_ERROR(prepareWeights());
  return identify(seed * 4 + uint64_t(!options.outputs.empty()) * 2 + uint64_t(flight().empty()));
}

Status Evaluation::prepareExtent() {
  auto all = EvalScope::of(plan, batch, source->samples(), options.steps);
  if (!all)
    return all.error();
  scope = *all;
  if (scope.fillsUp)
    source->endAt(scope.extent.samples);
  summary.evaluates = true;
  summary.isLikelihood = scope.isLikelihood;
  summary.out = options.out;
  summary.steps = scope.steps;
  return Status::success();
}

Status Evaluation::open() {
  if (!options.out.empty()) {
    ZC_RETURN_IF_ERROR(io::makeFolder(options.out));
    ZC_RETURN_IF_ERROR(io::checkWritable(options.out));
    ZC_RETURN_IF_ERROR(io::OutputFile::create(options.out + "/" + kEvaluationFile).status());
  }
  if (!options.outputs.empty()) {
    auto table = OutputTable::create(plan, scope.extent, options.outputs);
    if (!table)
      return table.error();
    outputs = std::move(*table);
  }
  return record(true);
}

Status Evaluation::share(Communicator &communicator) {
  char name[4096] = {};
  if (communicator.rank() == 0 && outputs)
    std::strncpy(name, outputs->temporaryName().c_str(), sizeof name - 1);
  ZC_RETURN_IF_ERROR(communicator.broadcast({name, sizeof name, 0}));
  if (communicator.rank() == 0 || !isFirst(communicator))
    return Status::success();
  if (name[0]) {
    auto table = OutputTable::join(plan, scope.extent, name);
    if (!table)
      return table.error();
    outputs = std::move(*table);
  }
  return record(false);
}

/// One rank's part.
class EvalRank : public OutputSink {
public:
  EvalRank(Evaluation &run, Communicator &communicator)
      : run(run), communicator(communicator), loader(run.source, run.mesh, communicator.rank()),
        losses(run.plan, run.scope, communicator) {}

  Status main();
  Status store(uint32_t output, const StepContext &context, const void *source, uint64_t bytes) override;

private:
  bool leads() const { return communicator.rank() == 0; }
  Status loop();
  Status step(int64_t step);
  void tell(int64_t step, double seconds);
  Status finish();

  Evaluation &run;
  Communicator &communicator;
  RankLoader loader;
  EvalLoss losses;
  std::unique_ptr<RankExecutor> executor; // after what its threads call and write into
  Traffic before;                         ///< of preparations
};

Status EvalRank::store(uint32_t output, const StepContext &context, const void *source, uint64_t) {
  losses.store(output, source);
  const AxisSet data = run.mesh.dataAxes();
  int64_t batch = (context.step - 1) * run.mesh.dataDegree() + run.mesh.indexOf(data, communicator.rank());
  bool isMine = run.mesh.groupOf(data, communicator.rank()) == 0; // of the ranks that share the samples
  return run.outputs && isMine ? run.outputs->store(output, batch, source) : Status::success();
}

Status EvalRank::main() {
  bool ready = false;
  ZC_RETURN_IF_ERROR(run.begin(communicator, ready));
  if (!ready)
    return Status::success();
  ExecutorOptions options = run.executorOptions();
  options.outputs = this;
  options.agree = [this] { return losses.exchange(run.isToldToStop()); };
  auto prepared = run.prepareExecutor(run.plan, communicator, options, loader);
  if (!prepared)
    return prepared.error();
  executor = std::move(*prepared);
  ZC_RETURN_IF_ERROR(run.loadFirstWeights(communicator, *executor, ready));
  if (!ready)
    return Status::success();
  ZC_RETURN_IF_ERROR(communicator.barrier());
  before = executor->traffic();
  if (leads())
    run.observer.starting(run.summary);
  return loop();
}

Status EvalRank::step(int64_t step) {
  StepContext context;
  context.step = step;
  setFaultContext(communicator.rank(), step);
  losses.begin(step);
  return executor->runStep(context);
}

void EvalRank::tell(int64_t step, double seconds) {
  StepRecord record;
  record.step = step;
  record.loss = losses.mean();
  record.seconds = seconds;
  record.samples =
      std::min(run.summary.samplesPerStep, run.scope.extent.samples - (step - 1) * run.summary.samplesPerStep);
  run.report.seconds += seconds;
  run.report.samples += record.samples;
  ++run.report.steps;
  run.observer.step(record);
}

Status EvalRank::loop() {
  for (int64_t step = 1; step <= run.summary.steps; ++step) {
    double begin = now();
    ZC_RETURN_IF_ERROR(this->step(step));
    if (run.isFirst(communicator))
      if (std::string excess = run.memory.look(); !excess.empty())
        run.observer.warning("step " + std::to_string(step) + ": " + excess);
    if (leads())
      tell(step, now() - begin);
    if (run.scope.hasLoss() && losses.counts() && !std::isfinite(losses.mean())) {
      run.endWith(communicator,
                  makeError(Code::numeric, 954,
                            "the loss is not finite in step " + std::to_string(step) + ", samples " +
                                std::to_string((step - 1) * run.summary.samplesPerStep) + " to " +
                                std::to_string(step * run.summary.samplesPerStep - 1),
                            "", "where a batch has no label that counts, zero-compile --loss-mean global"));
      return Status::success();
    }
    if (losses.isToStop() && step < run.summary.steps) {
      run.endWith(communicator,
                  makeError(Code::preempted, 955, "stopped after step " + std::to_string(step) + ", nothing is kept"));
      ZC_RETURN_IF_ERROR(executor->drain());
      return communicator.barrier(); // as after the last step
    }
  }
  return finish();
}

Status EvalRank::finish() {
  ZC_RETURN_IF_ERROR(executor->drain());
  ZC_RETURN_IF_ERROR(run.warn(communicator, executor->lateNotes()));
  if (run.scope.hasLoss() && !losses.counts()) {
    run.endWith(communicator, makeError(Code::numeric, 956, "no label of the data counts: there is no loss"));
    return communicator.barrier();
  }
  if (run.outputs && run.isFirst(communicator))
    ZC_RETURN_IF_ERROR(run.outputs->flush());
  ZC_RETURN_IF_ERROR(communicator.barrier());
  if (!leads())
    return Status::success();
  if (run.outputs)
    ZC_RETURN_IF_ERROR(run.outputs->commit());
  EvalReport &report = run.report;
  addDifference(report.traffic, before, executor->traffic());
  report.arenas = executor->arenas();
  report.tokens = report.samples * run.summary.tokensPerSample;
  report.out = run.options.out;
  report.outputs = run.options.outputs;
  report.batches = run.scope.batches();
  report.leftOut = run.scope.leftOut();
  if (run.scope.hasLoss())
    report.loss = losses.mean();
  report.isLikelihood = run.scope.isLikelihood;
  return Status::success();
}

} // namespace

Result<EvalReport> evaluate(const planpb::Plan &plan, const EvalOptions &options, const RunControl &control,
                            RunObserver &observer) {
  Evaluation run(plan, options, control, observer);
  RankGroup &ranks = run.ranks;
  run.prepare();
  ZC_RETURN_IF_ERROR(runJob(ranks, [&run](Communicator &communicator) { return EvalRank(run, communicator).main(); }));
  if (run.ending)
    return *run.ending;
  run.memory.fill(run.report);
  if (std::string excess = run.memory.look(); !excess.empty())
    observer.warning(excess);
  if (ranks.firstRank() != 0)
    return std::move(run.report);
  if (run.scope.hasLoss() && run.report.leftOut > 0)
    observer.warning(run.scope.textOfLeftOut());
  if (!options.out.empty())
    ZC_RETURN_IF_ERROR(io::replaceFile(options.out + "/" + kEvaluationFile, toJson(run.report) + "\n"));
  return std::move(run.report);
}

} // namespace zc::train
