#include "runtime/train/Train.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "runtime/exec/Job.h"
#include "runtime/io/Folder.h"
#include "runtime/train/Run.h"
#include "runtime/train/Straggler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <malloc.h>
#include <unistd.h>
#include <utility>

namespace zc::train {

namespace {

/// One rank's part of a run.
class Rank {
public:
  Rank(Run &run, Communicator &communicator)
      : run(run), communicator(communicator), loader(run.source, run.mesh, communicator.rank()) {}

  Status main();

private:
  bool leads() const { return communicator.rank() == 0; }
  /// The state before the first step; where there is to be none, `ready` is false.
  Status begin(bool &ready);
  Status seekBest();
  Status loop();
  /// After the first step: an earlier run that is to go does so now, unless this one ends here. Then it has `ended`.
  Status replaceEarlier();
  Status step(int64_t step);
  /// The evaluation after `step`; what it finds goes into `record`. Where it is broken off, `stop` is set.
  Status validate(int64_t step);
  /// The checkpoint "best", where the evaluation after `current` was that.
  Status keepBest();
  /// What is to be said of the step for once: a rank that is late, more memory than was planned.
  void warn();
  /// Rank 0 tells of the step.
  void tell();
  bool isToEndEarly() const { return run.options.earlyStop > 0 && evaluations.since >= run.options.earlyStop; }
  /// Whether the step's numbers are finite, and what is done where they are not.
  void judge(int64_t step, bool hasLoss);
  /// Whether any process was told to stop, the same on all ranks, and who is late; called by the executor between the
  /// step's collectives.
  Status pulse();
  /// The step is over on all queues and its bytes are counted.
  Status drain();
  /// What was counted and timed since is not of a step.
  void forget();
  void endWith(Error why) { run.endWith(communicator, std::move(why)); }
  /// The run ends after `current`, which is saved, because it was told to stop.
  Status preempt();
  /// To the system: what the process's allocator keeps of memory that is free, which is no part of the plan.
  void giveBack();
  /// Where the run goes on without it, a save that fails is told of. Sets `isSaved` on all ranks, if there is one.
  Status save(const std::string &name, int64_t step, bool goesOn, bool *isSaved = nullptr);
  Status finish();

  Run &run;
  Communicator &communicator;
  RankLoader loader;
  std::unique_ptr<RankExecutor> executor;
  std::optional<Validator> validator; // after the executor, whose memory it uses
  StepRecord record;
  EvalHistory evaluations, evaluationsBefore; ///< and as they were before the last one
  bool isBest = false;                        ///< the last one, and not saved yet
  LossScale lossScale;
  std::optional<Error> numeric; ///< why training cannot go on
  Traffic counted;              ///< what the report has been told of, or shall not be

  std::vector<Pulse> pulses;       ///< by rank
  double agreedAt = 0, inside = 0; ///< when that was, and the seconds in collectives before
  int64_t current = 0;             ///< the last step that was begun, or that the run goes on from
  bool stop = false;               ///< agreed in it
  bool toldOfNoLoss = false;       ///< that no label of a step counts
  bool ended = false;              ///< before the last step, and there is nothing left to save
  Straggler straggler;
};

Status Rank::main() {
  bool ready = false;
  ZC_RETURN_IF_ERROR(run.begin(communicator, ready));
  if (!ready)
    return Status::success();
  if (run.leavesProfile()) {
    // While there are no arenas: what it takes of memory is not to come on top of them, nor to count.
    if (run.isFirst(communicator) && MemoryWatch::forgetPeak()) {
      run.measureLimits();
      MemoryWatch::forgetPeak();
    }
    ZC_RETURN_IF_ERROR(communicator.barrier());
  }
  pulses.resize(size_t(communicator.worldSize()));
  ExecutorOptions options = run.executorOptions();
  Recording::configure(run.plan, run.options, run.summary.steps, options);
  options.agree = [this] { return pulse(); };
  if (leads() && !run.memory.large().empty())
    run.observer.note(run.memory.large());
  auto prepared = run.prepareExecutor(run.plan, communicator, options, loader);
  if (!prepared)
    return prepared.error();
  executor = std::move(*prepared);
  if (run.validation)
    ZC_RETURN_IF_ERROR(validator.emplace(run, *run.validation, communicator).prepare(*executor));
  ZC_RETURN_IF_ERROR(begin(ready));
  if (!ready)
    return Status::success();
  ZC_RETURN_IF_ERROR(communicator.barrier());
  giveBack();
  forget();
  if (leads())
    run.observer.starting(run.summary);
  ZC_RETURN_IF_ERROR(loop());
  if (!numeric)
    ZC_RETURN_IF_ERROR(finish());
  return communicator.barrier(); // whose device goes takes its ends of messages away, of which others may wait for some
}

Status Rank::begin(bool &ready) {
  if (run.plan.has_loss_scale())
    lossScale = LossScale(run.plan.loss_scale());
  evaluations = run.evaluationsSoFar();
  if (!run.resumed)
    return run.startFresh(communicator, *executor, ready);
  ZC_RETURN_IF_ERROR(run.restore(communicator, *executor, ready));
  if (!ready)
    return Status::success();
  const Manifest &resumed = *run.resumed;
  record = resumed.last;
  current = resumed.step;
  evaluations = run.evaluationsSoFar(); // another one may have been chosen
  isBest = evaluations.bestStep == resumed.step && resumed.folder != run.summary.out + "/best";
  ZC_RETURN_IF_ERROR(seekBest());
  if (leads())
    run.report.last = record;
  if (!run.plan.has_loss_scale() || (!resumed.lossScale && !run.samePlan()))
    return Status::success();
  // A rule that was changed may not know the scale; then it begins as it says.
  Status restored = lossScale.restore(resumed.lossScale.value_or(LossScaleState{0}), resumed.step);
  if (leads() && resumed.lossScale && lossScale.state().scale != resumed.lossScale->scale) {
    char text[120];
    std::snprintf(text, sizeof text, "the loss is scaled by %.9g, as the plan says, no longer by %.9g",
                  lossScale.state().scale, resumed.lossScale->scale);
    run.observer.note(text);
  }
  return run.samePlan() ? restored : Status::success();
}

/// The checkpoint of the lowest loss so far may have stayed in another folder, or been set aside: then the lowest one
/// from here on is kept.
Status Rank::seekBest() {
  if (!run.options.keepBest || evaluations.bestStep == 0 || isBest)
    return Status::success();
  const std::string best = run.summary.out + "/best";
  int64_t step = 0;
  if (leads())
    if (auto manifest = readManifest(best))
      step = manifest->step;
  ZC_RETURN_IF_ERROR(communicator.broadcast({&step, sizeof step, 0}));
  if (step == evaluations.bestStep)
    return Status::success();
  if (leads())
    run.observer.note("the checkpoint of the lowest loss so far, after step " + std::to_string(evaluations.bestStep) +
                      ", is not \"" + best + "\": the lowest from here on will be");
  evaluations.best = NAN;
  evaluations.bestStep = evaluations.since = 0;
  return Status::success();
}

void Rank::giveBack() {
  if (run.isFirst(communicator))
    ::malloc_trim(0);
}

Status Rank::step(int64_t step) {
  StepContext context;
  context.step = step;
  context.learningRate = run.schedule.at(step);
  context.lossScale = lossScale.state().scale;
  context.skipped = lossScale.state().skipped;
  setFaultContext(communicator.rank(), step);
  if (auto fault = failpoint("step.begin"); fault && fault->kind == FaultAction::Kind::error)
    return makeError(Code::other, 944,
                     "step " + std::to_string(step) + " was told to fail: " + std::strerror(fault->errnum),
                     "ZERO_FAULT");
  uint64_t allocated = run.control.allocations ? run.control.allocations() : 0;
  current = step;
  double begin = now();
  ZC_RETURN_IF_ERROR(executor->runStep(context));
  record.seconds = now() - begin;
  record.step = step;
  const std::optional<double> loss = executor->loss();
  record.loss = loss.value_or(NAN);
  record.gradNorm = executor->gradNorm();
  record.lr = context.learningRate;
  record.samples = run.summary.samplesPerStep;
  record.eval.reset();
  judge(step, loss.has_value());
  const uint64_t taken = run.control.allocations ? run.control.allocations() - allocated : 0;
  warn(); // which takes memory
  if (!leads())
    return Status::success();
  if (!loss && !record.skipped && !std::exchange(toldOfNoLoss, true))
    run.observer.warning("no label counts in step " + std::to_string(step) +
                         ": it has no loss, and no gradients (of later steps it is not said again)");
  RunReport &report = run.report;
  if (run.control.allocations && step > run.summary.firstStep + 1)
    report.steadyAllocations = report.steadyAllocations.value_or(0) + taken;
  report.seconds += record.seconds;
  report.samples += record.samples;
  ++report.steps;
  return Status::success();
}

void Rank::warn() {
  if (const char *late = straggler.take())
    run.observer.warning(late);
  if (!run.isFirst(communicator))
    return;
  if (std::string excess = run.memory.look(); !excess.empty())
    run.observer.warning("step " + std::to_string(current) + ": " + excess);
}

void Rank::tell() {
  if (!leads())
    return;
  run.report.last = record;
  run.metrics.append(record);
  run.observer.step(record);
}

Status Rank::validate(int64_t step) {
  ZC_RETURN_IF_ERROR(drain());
  ZC_RETURN_IF_ERROR(communicator.barrier());
  auto found = validator->evaluate();
  if (!found)
    return found.error();
  forget(); // what it took is no part of anybody's step
  if (!*found) {
    stop = true;
    return Status::success();
  }
  record.eval = **found;
  evaluationsBefore = evaluations;
  isBest = evaluations.add(step, record.eval->loss);
  if (leads() && !std::isfinite(record.eval->loss))
    run.observer.warning("after step " + std::to_string(step) + " the loss of the evaluation is not finite");
  return Status::success();
}

Status Rank::keepBest() {
  if (!std::exchange(isBest, false) || !run.options.keepBest)
    return Status::success();
  bool isSaved = false;
  ZC_RETURN_IF_ERROR(save("best", current, run.options.outlivesFailedSave, &isSaved));
  if (!isSaved) { // the next that is lower than what "best" holds is to be saved
    evaluations.best = evaluationsBefore.best;
    evaluations.bestStep = evaluationsBefore.bestStep;
  }
  return Status::success();
}

void Rank::judge(int64_t step, bool hasLoss) {
  bool isFinite = !record.gradNorm || !std::isnan(*record.gradNorm);
  record.skipped = run.plan.has_loss_scale() && !isFinite;
  if (run.plan.has_loss_scale())
    record.lossScale = lossScale.state().scale;
  if (record.skipped) {
    Status status = lossScale.skip(step);
    if (!status.ok())
      numeric = status.error();
    return;
  }
  lossScale.advance(step);
  if (!isFinite || (hasLoss && !std::isfinite(record.loss)))
    numeric = makeError(Code::numeric, 941,
                        std::string(std::isfinite(record.loss) ? "the gradients are" : "the loss is") +
                            " not finite at step " + std::to_string(step),
                        "",
                        step == run.summary.firstStep
                            ? "it is the first step: look at the data and the weights, which no update has changed"
                            : "lower --lr, or clip gradients with zero-compile --clip-grad-norm");
  if (!numeric)
    return;
  if (std::isnan(record.loss) && run.batch.labels() && !run.plan.metrics().weighted())
    numeric->help += "; where a batch has no label that counts, zero-compile --loss-mean global";
  if (Result<std::string> place = run.source->notFinite(step - 1); place && !place->empty()) {
    numeric->note = *place;
    numeric->help = "mend the data, or leave such samples out";
  }
}

Status Rank::drain() {
  double begin = now();
  ZC_RETURN_IF_ERROR(executor->drain());
  Traffic before = std::exchange(counted, executor->traffic());
  if (leads()) {
    addDifference(run.report.traffic, before, counted);
    run.report.seconds += now() - begin;
  }
  return Status::success();
}

void Rank::forget() {
  counted = executor->traffic();
  inside = communicator.seconds();
  agreedAt = now();
}

Status Rank::pulse() {
  double before = std::exchange(inside, communicator.seconds()), seconds = now() - agreedAt;
  agreedAt += seconds;
  Pulse mine{inside - before, run.isToldToStop()};
  ZC_RETURN_IF_ERROR(communicator.allGather({&mine, pulses.data(), sizeof mine}));
  stop = false;
  for (const Pulse &pulse : pulses)
    stop |= pulse.stop != 0;
  if (leads() && communicator.worldSize() > 1)
    straggler.note(pulses, current, seconds);
  return Status::success();
}

Status Rank::replaceEarlier() {
  ZC_RETURN_IF_ERROR(drain());
  if (numeric) {
    ended = true;
    endWith(*numeric);
  } else if (stop) {
    ended = true;
    endWith(makeError(Code::other, 969, "stopped before the run in its folder was replaced, which is as it was",
                      run.summary.out, "--overwrite starts again, --resume auto goes on with that run"));
  } else {
    bool ready = false;
    ZC_RETURN_IF_ERROR(run.takeFolder(communicator, ready));
    ended = !ready;
  }
  forget();
  return Status::success();
}

Status Rank::preempt() {
  ended = true;
  endWith(makeError(Code::preempted, 942, "stopped after step " + std::to_string(current) + ", its state is saved",
                    run.summary.out, "continue with --resume auto"));
  return Status::success();
}

Status Rank::loop() {
  if (run.owesEvaluation()) {
    ZC_RETURN_IF_ERROR(validate(current));
    if (stop) { // what it goes on from may be another run's
      if (io::folderOf(run.resumed->folder) != run.summary.out)
        ZC_RETURN_IF_ERROR(save("step-" + std::to_string(current), current, false));
      return preempt();
    }
    tell();
  }
  ZC_RETURN_IF_ERROR(keepBest());
  for (int64_t step = run.summary.firstStep; step <= run.summary.steps && !isToEndEarly(); ++step) {
    ZC_RETURN_IF_ERROR(this->step(step));
    if (run.replaces && step == run.summary.firstStep)
      ZC_RETURN_IF_ERROR(replaceEarlier());
    if (ended)
      return Status::success();
    bool stops = stop && step < run.summary.steps;
    if (!numeric && !stops && run.evaluatesAfter(step)) {
      stop = false; // it comes to an end where it may
      ZC_RETURN_IF_ERROR(validate(step));
      stops = stop;
    }
    tell(); // before anything of the step is saved, which a run that goes on takes for told
    if (run.recording.isDue(run.options, step)) {
      ZC_RETURN_IF_ERROR(drain());
      run.recording.collect(run.options, *executor);
    }
    if (numeric) {
      ZC_RETURN_IF_ERROR(drain());
      run.recording.collect(run.options, *executor);
      endWith(*numeric);
      return Status::success();
    }
    bool due = run.options.saveEvery > 0 && step % run.options.saveEvery == 0;
    if (due || stops)
      ZC_RETURN_IF_ERROR(save("step-" + std::to_string(step), step, run.options.outlivesFailedSave && !stops));
    ZC_RETURN_IF_ERROR(keepBest()); // after the other, so that a run that goes on lacks neither
    if (stops)
      return preempt();
  }
  if (leads() && isToEndEarly() && current < run.summary.steps) {
    run.report.stoppedEarly = true;
    run.observer.note("ends early after step " + std::to_string(current) + ": " + std::to_string(evaluations.since) +
                      " evaluations without a lower loss than after step " + std::to_string(evaluations.bestStep));
  }
  return Status::success();
}

Status Rank::save(const std::string &name, int64_t step, bool goesOn, bool *isSaved) {
  ZC_RETURN_IF_ERROR(drain());
  ZC_RETURN_IF_ERROR(communicator.barrier()); // what saving takes and allocates is no part of anybody's step
  giveBack();
  Manifest manifest = run.manifest;
  manifest.step = step;
  manifest.data.position = run.positionAfter(step);
  manifest.last = record;
  if (run.plan.has_loss_scale())
    manifest.lossScale = lossScale.state();
  if (run.validation)
    manifest.evaluations = evaluations;
  bool isGone = leads() && run.folder.isGone();
  if (isGone)
    ZC_RETURN_IF_ERROR(run.remakeFolder());
  auto outcome = saveCheckpoint(*executor, communicator, std::move(manifest), run.checkpoints, name, run.options.keep);
  if (!outcome)
    return outcome.error();
  if (isSaved)
    *isSaved = outcome->saved;
  if (leads() && outcome->saved)
    run.observer.note("saved \"" + run.summary.out + "/" + name + "\"");
  if (isGone && outcome->saved) // whoever removed it may not want the run to go on
    return makeError(Code::io, 938,
                     "\"" + run.summary.out + "\" was removed while the run went on: the state after step " +
                         std::to_string(step) + " and the metrics were saved there again, older checkpoints are gone",
                     "", "continue with --resume auto");
  if (!outcome->own.ok()) {
    if (!goesOn && !outcome->saved)
      return outcome->own;
    const Error &why = outcome->own.error();
    run.observer.warning(name + (outcome->saved ? ": older checkpoints stay: " : " is not saved: ") + why.message +
                         (why.where.empty() ? "" : " (" + why.where + ")"));
  } else if (!outcome->saved && !goesOn) {
    return communicator.barrier(); // which the rank whose part failed does not reach
  }
  forget();
  return Status::success();
}

Status Rank::finish() {
  ZC_RETURN_IF_ERROR(drain());
  run.recording.collect(run.options, *executor); // of a run that ended before the last step to be recorded
  // As before a save: what warning takes and allocates is no part of anybody's step.
  ZC_RETURN_IF_ERROR(communicator.barrier());
  ZC_RETURN_IF_ERROR(run.warn(communicator, executor->lateNotes()));
  if (leads()) {
    run.report.arenas = executor->arenas();
    run.report.issueSeconds = executor->issueSeconds();
    run.report.tokens = run.report.samples * run.summary.tokensPerSample;
    run.report.out = run.summary.out;
    if (run.options.savesFinal)
      run.report.final = run.summary.out + "/final";
    if (run.validation)
      run.report.evaluations = evaluations;
  }
  // A stopped run has saved its state already, one that had nothing left to do has found it.
  bool isThere = run.resumed && run.resumed->step == current && !run.owesEvaluation() &&
                 run.resumed->folder == run.summary.out + "/final";
  return ended || isThere || !run.options.savesFinal ? Status::success() : save("final", current, /*goesOn=*/false);
}

} // namespace

Result<RunReport> train(const planpb::Plan &plan, const RunOptions &options, const RunControl &control,
                        RunObserver &observer) {
  Run run(plan, options, control, observer);
  RankGroup &ranks = run.ranks;
  run.prepare();
  ZC_RETURN_IF_ERROR(runJob(ranks, [&run](Communicator &communicator) { return Rank(run, communicator).main(); }));
  run.memory.fill(run.report);
  if (std::string excess = run.memory.look(); !excess.empty()) // of the last save
    observer.warning(excess);
  if (run.ending && !run.ownsFolder) // what is in it is of an earlier run, or of none
    return *run.ending;
  run.leaveRecords();
  if (run.ending)
    return *run.ending;
  return std::move(run.report);
}

} // namespace zc::train
