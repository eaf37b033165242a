#include "runtime/train/Run.h"

#include "base/Clock.h"
#include "base/OpenFiles.h"
#include "base/Size.h"
#include "runtime/io/Folder.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/Profile.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace zc::train {

void Run::prepare() { prepared = prepareAll(); }

Status Run::prepareAll() {
  if (plan.forward_only())
    return makeError(Code::mismatch, 950, "the plan is forward-only: it trains nothing", options.plan,
                     "zero-run eval " + options.plan);
  ZC_RETURN_IF_ERROR(prepareJob());
  ZC_RETURN_IF_ERROR(prepareData());
  ZC_RETURN_IF_ERROR(prepareValidation());
  ZC_RETURN_IF_ERROR(prepareSteps());
  // A wrong model must not leave a folder behind; only where a checkpoint may replace it, it is looked at later.
  return options.resume.empty() ? prepareWeights() : Status::success();
}

int64_t Run::positionAfter(int64_t step) const {
  int64_t from = resumed ? resumed->step : 0, position = resumed ? resumed->data.position : 0;
  return position + (step - from) * summary.samplesPerStep;
}

EvalHistory Run::evaluationsSoFar() const {
  EvalHistory none;
  none.data = validation ? validation->fingerprint : 0;
  bool isSame = resumed && resumed->evaluations && resumed->evaluations->data == none.data;
  return isSame ? *resumed->evaluations : none;
}

/// The second data set, checked as the first one is.
Status Run::prepareValidation() {
  if (!options.evaluates())
    return Status::success();
  auto made = Validation::of(plan, options.plan);
  if (!made)
    return made.error();
  validation = std::move(*made);
  auto opened = openData(evalDataOf(options), validation->batch);
  if (!opened)
    return namedForEval(opened.error());
  validation->source = std::move(*opened);
  auto scope = EvalScope::of(validation->plan, validation->batch, validation->source->samples(), options.evalSteps);
  if (!scope)
    return namedForEval(scope.error());
  validation->scope = *scope;
  if (scope->fillsUp)
    validation->source->endAt(scope->extent.samples);
  auto fingerprint = validation->source->fingerprint();
  if (!fingerprint)
    return fingerprint.error();
  // Of another part of them, losses are not comparable either.
  validation->fingerprint = *fingerprint ^ uint64_t(scope->extent.samples) * 0x9e3779b97f4a7c15;
  if (ranks.firstRank() != 0)
    return Status::success();
  observer.note("evaluating on " + counted(scope->extent.samples, "sample") +
                (options.evalEvery > 0 ? " every " + counted(options.evalEvery, "step") : " after the last step"));
  if (scope->leftOut() > 0)
    observer.warning("of the data to evaluate on, " + scope->textOfLeftOut());
  return Status::success();
}

std::string Run::scheduleText() const {
  const std::string &planned = plan.optimizer().lr_schedule();
  return !options.schedule.empty() ? options.schedule : !planned.empty() ? planned : "constant";
}

/// Is there a step of `steps` in what is to be recorded?
static Status checkRecorded(const StepRange &range, const char *flag, int64_t steps) {
  if (range.first <= steps)
    return Status::success();
  return makeError(Code::usage, 994,
                   "no step is in " + std::to_string(range.first) + ":" + std::to_string(range.last) +
                       ": the run has " + counted(steps, "step"),
                   flag);
}

/// How many steps, which learning rates.
Status Run::makeSchedule() {
  double epochs = options.epochs > 0 ? options.epochs : 1;
  int64_t done = resumed ? resumed->step : 0;
  double left = epochs * double(source->samples()) - double(positionAfter(done));
  // 1.1 times 100 is more than 110 by rounding alone.
  double steps = double(done) + std::ceil(std::max(left, 0.0) / double(summary.samplesPerStep) * (1 - 1e-12));
  if (options.steps > 0)
    steps = options.epochs > 0 ? std::min(double(options.steps), steps) : double(options.steps);
  if (steps * double(summary.samplesPerStep) > 0x1p60)
    return makeError(Code::usage, 943, "the run would take more than 2^60 samples",
                     options.steps > 0 ? "--steps" : "--epochs");
  summary.steps = int64_t(steps);
  ZC_RETURN_IF_ERROR(checkRecorded(options.trace, "--trace", summary.steps));
  ZC_RETURN_IF_ERROR(checkRecorded(options.profile, "--profile", summary.steps));
  auto made =
      Schedule::create(scheduleText(), options.lr.value_or(plan.optimizer().lr()), options.warmup, summary.steps);
  if (!made)
    return made.error();
  schedule = *made;
  return Status::success();
}

/// What follows from the data, and what checkpoints say of it.
Status Run::prepareSteps() {
  if (options.overwrite && !options.resume.empty())
    return makeError(Code::usage, 925, "\"--overwrite\" removes what \"--resume\" would go on from", "--overwrite");
  ZC_RETURN_IF_ERROR(makeSchedule());
  if (source->samples() < summary.samplesPerStep && ranks.firstRank() == 0)
    observer.warning("the data have " + counted(source->samples(), "sample") + " but a step takes " +
                     std::to_string(summary.samplesPerStep) + ": samples repeat within a step");
  manifest = describeRun(plan);
  manifest.seed = seed;
  manifest.products = hashOf(products.table.get());
  manifest.plan.hash = planHash(plan);
  manifest.plan.samplesPerStep = summary.samplesPerStep;
  manifest.optimizer.set_lr(options.lr.value_or(plan.optimizer().lr()));
  manifest.optimizer.set_lr_schedule(scheduleText());
  manifest.warmup = schedule.warmup();
  if (ranks.firstRank() == 0) { // the others see samples of it (identify)
    auto fingerprint = source->fingerprint();
    if (!fingerprint)
      return fingerprint.error();
    manifest.data = {*fingerprint, source->samples(), options.data.shuffle, options.data.shiftLabels, 0};
  }
  return identify(optionsOf(options, seed, summary.steps) ^ (validation ? validation->fingerprint : 0));
}

Status Run::open() {
  auto locked = RunFolder::open(outputFolder(options, plan));
  if (!locked)
    return locked.error();
  folder = std::move(*locked);
  summary.out = folder.name();
  checkpoints = CheckpointFolder(folder.name(), [this](const std::string &text) { tell(text); });
  ZC_RETURN_IF_ERROR(checkpoints.recover());
  if (options.overwrite) {
    ZC_RETURN_IF_ERROR(prepareReplacing());
  } else if (options.resume.empty()) {
    ZC_RETURN_IF_ERROR(checkFresh(summary.out));
  } else {
    auto found = CheckpointChoice::toResume(summary.out, options.resume);
    if (!found)
      return found.error();
    choice = std::move(*found);
  }
  if (choice)
    ZC_RETURN_IF_ERROR(choose());
  if (!values && !resumed)
    ZC_RETURN_IF_ERROR(prepareWeights());
  return record(true);
}

Status Run::prepareReplacing() {
  auto removable = checkpoints.removable();
  if (!removable)
    return removable.error();
  replaces = !removable->empty() || hasMetrics(summary.out);
  return Status::success();
}

/// Whether that checkpoint is one of this run's own.
static bool isOf(const std::string &out, const Manifest &manifest) {
  std::error_code ignored;
  return std::filesystem::equivalent(io::folderOf(manifest.folder), out, ignored);
}

Status Run::choose() {
  auto found = choice->newest(verifyHeads, [this](const std::string &text) { tell(text); });
  if (!found)
    return found.error();
  ZC_RETURN_IF_ERROR(checkResumes(plan, *found, manifest, options));
  if (!isOf(summary.out, *found))
    ZC_RETURN_IF_ERROR(checkFresh(summary.out));
  resumed = std::move(*found);
  return goOn();
}

Status Run::settle() {
  if (resumed)
    ZC_RETURN_IF_ERROR(settleResumed());
  if (replaces)
    ZC_RETURN_IF_ERROR(checkpoints.clear());
  // Lines that a killed run wrote after its last checkpoint come again; those of a part that is left belong to what is
  // set aside of it.
  const bool leavesPart = resumed && options.resume != "auto" && isOf(summary.out, *resumed);
  return metrics.open(folder.name() + "/" + kMetricsFile, summary.firstStep - 1, owesEvaluation(),
                      leavesPart ? checkpoints.aside(kMetricsFile) : "");
}

Status Run::checkOpenFiles() const {
  const bool saves = options.savesFinal || options.saveEvery > 0 || options.keepBest;
  const uint64_t needed = openFilesOfSave(plan, ranks.count(), ranks.firstRank() == 0), left = openFilesLeft();
  if (!saves || needed <= left)
    return Status::success();
  return makeError(Code::io, 981,
                   "ulimit -n leaves this process " + std::to_string(left) + " more open files, but a save takes " +
                       std::to_string(needed),
                   summary.out, "give a ulimit -n that is greater by " + std::to_string(needed - left));
}

Status Run::startFresh(Communicator &communicator, RankExecutor &executor, bool &ready) {
  ZC_RETURN_IF_ERROR(loadFirstWeights(communicator, executor, ready));
  if (ready)
    ZC_RETURN_IF_ERROR(checkAhead(communicator, ready));
  return ready && !replaces ? takeFolder(communicator, ready) : Status::success();
}

Status Run::takeFolder(Communicator &communicator, bool &ready) {
  ZC_RETURN_IF_ERROR(agreeWith(communicator, communicator.rank() == 0 ? settle() : Status::success(), ready));
  if (ready && isFirst(communicator))
    ownsFolder = true;
  return Status::success();
}

Status Run::settleResumed() {
  if (isOf(summary.out, *resumed)) {
    if (options.resume != "auto")
      ZC_RETURN_IF_ERROR(checkpoints.abandonAfter(resumed->step));
    checkpoints.trust(summary.out + "/" + io::fileNameOf(resumed->folder));
  }
  char seconds[40];
  std::snprintf(seconds, sizeof seconds, "%.3f", loading);
  observer.note("continuing after step " + std::to_string(resumed->step) + " of \"" + resumed->folder +
                "\", loaded in " + seconds + " s");
  for (const std::string &line : changesOf(*resumed, manifest))
    observer.note(line);
  if (validation && resumed->evaluations && evaluationsSoFar().step == 0 && resumed->evaluations->step > 0)
    observer.note("the data to evaluate on are others: what was the best loss so far does not count");
  for (auto [flag, range] : {std::pair("--trace", options.trace), std::pair("--profile", options.profile)})
    if (range && range.last <= resumed->step)
      tell(std::string(flag) + ": no step of " + std::to_string(range.first) + ":" + std::to_string(range.last) +
           " is left to do, nothing is recorded");
  if (resumed->step >= summary.steps)
    tell("the run is at step " + std::to_string(resumed->step) + " already, no step of " +
         std::to_string(summary.steps) + " is left to do");
  return Status::success();
}

Status Run::remakeFolder() {
  auto again = RunFolder::open(folder.name());
  Status free = again ? checkFresh(folder.name()) : again.status(); // of a run that began and ended there meanwhile
  if (!free.ok()) {
    Error error = free.error();
    error.code = Code::io;
    error.note = "\"" + folder.name() + "\" was removed while the run went on, and cannot be made again";
    error.help.clear();
    return error;
  }
  folder = std::move(*again);
  return metrics.putBack();
}

void Run::leaveRecords() {
  const bool isGone = folder.isGone();
  if (isGone) {
    observer.warning("\"" + summary.out + "\" was removed while the run went on: its metrics went with it");
  } else if (metrics.isGone()) {
    Status put = metrics.putBack();
    observer.warning(std::string(kMetricsFile) +
                     " was removed while the run went on: " + (put.ok() ? "it is there again" : put.error().message));
  }
  if (metrics.failure() != 0)
    observer.warning(std::string(kMetricsFile) + " is incomplete: " + std::strerror(metrics.failure()));
  const std::string trace = summary.out + "/" + traceFile(ranks.firstRank());
  if (Status written = isGone ? Status::success() : recording.writeTrace(plan, options, trace); !written.ok())
    observer.warning("the trace is missing: " + written.error().message);
  watchdog.stop();
  if (leavesProfile())
    leaveProfile();
}

/// By all ranks of the process at once, as they train.
void Run::measureLimits() {
  if (Status measured = train::measureLimits(executorOptions().threads, ranks.count(), limits); !measured.ok())
    observer.warning("the profile's limits are not measured: " + measured.error().message);
}

/// Where the recorded steps' time went, beside what this machine can do.
void Run::leaveProfile() {
  measureLimits();
  if (ranks.firstRank() != 0)
    return;
  Profile profile(plan, executorOptions(), limits, recording.eventsOfFirst(options.profile));
  report.profile = profile.text();
  if (folder.isGone())
    return;
  if (Status written = profile.writePage(summary.out + "/" + kProfilePage); !written.ok())
    observer.warning("the profile's page is missing: " + written.error().message);
}

Status Run::goOn() {
  source->startAt(resumed->step, resumed->data.position);
  summary.firstStep = resumed->step + 1;
  return makeSchedule();
}

Status Run::restore(Communicator &communicator, RankExecutor &executor, bool &ready) {
  bool leads = communicator.rank() == 0;
  double began = now();
  for (;;) {
    auto refusal = agree(communicator, identity, restoreCheckpoint(executor, *resumed, samePlan()));
    if (!refusal)
      return refusal.error();
    if (!*refusal)
      break;
    Status next = Status::success();
    if (leads) {
      next = choice->passOver(**refusal, [this](const std::string &text) { tell(text); });
      if (next.ok())
        next = choose();
    }
    ZC_RETURN_IF_ERROR(agreeWith(communicator, next, ready));
    if (!ready)
      return Status::success();
    ZC_RETURN_IF_ERROR(shareCheckpoint(communicator));
    ZC_RETURN_IF_ERROR(communicator.barrier());
  }
  if (leads)
    loading = now() - began;
  ZC_RETURN_IF_ERROR(checkAhead(communicator, ready));
  return ready ? takeFolder(communicator, ready) : Status::success();
}

static void write(char (&to)[4096], const std::string &from) {
  std::memcpy(to, from.data(), std::min(from.size(), sizeof to - 1));
}

Status Run::share(Communicator &communicator) {
  struct {
    char out[4096] = {};
    uint64_t replaces = 0;
  } opened;
  if (communicator.rank() == 0) {
    write(opened.out, summary.out);
    opened.replaces = replaces;
  }
  ZC_RETURN_IF_ERROR(communicator.broadcast({&opened, sizeof opened, 0}));
  bool learns = communicator.rank() != 0 && isFirst(communicator);
  if (learns) {
    summary.out = opened.out;
    replaces = opened.replaces != 0;
    checkpoints = CheckpointFolder(summary.out);
  }
  ZC_RETURN_IF_ERROR(shareCheckpoint(communicator));
  if (!learns)
    return Status::success();
  if (!values && !resumed)
    ZC_RETURN_IF_ERROR(prepareWeights());
  return record(false);
}

Status Run::shareCheckpoint(Communicator &communicator) {
  struct {
    char folder[4096] = {};
    int64_t step = -1;
  } found;
  if (communicator.rank() == 0 && resumed) {
    write(found.folder, resumed->folder);
    found.step = resumed->step;
  }
  ZC_RETURN_IF_ERROR(communicator.broadcast({&found, sizeof found, 0}));
  if (communicator.rank() == 0 || !isFirst(communicator) || found.step < 0)
    return Status::success();
  auto manifest = readManifest(found.folder); // rank 0 has verified the heads
  if (!manifest)
    return manifest.error();
  if (manifest->step != found.step)
    return makeError(Code::mismatch, 949,
                     "the checkpoint is of step " + std::to_string(manifest->step) + " here but of step " +
                         std::to_string(found.step) + " on rank 0",
                     found.folder, "the run's folder must be the same for all ranks");
  resumed = std::move(*manifest);
  return goOn();
}

} // namespace zc::train
