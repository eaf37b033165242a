#include "runtime/train/Run.h"

#include "runtime/base/Size.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <cmath>
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
  ZC_RETURN_IF_ERROR(prepareSteps());
  // A wrong model must not leave a folder behind; only where a checkpoint may replace it, it is looked at later.
  return options.resume.empty() ? prepareWeights() : Status::success();
}

int64_t Run::positionAfter(int64_t step) const {
  int64_t from = resumed ? resumed->step : 0, position = resumed ? resumed->data.position : 0;
  return position + (step - from) * summary.samplesPerStep;
}

bool Run::isOver() const {
  return resumed && resumed->step >= summary.steps && resumed->folder == summary.out + "/final";
}

std::string Run::scheduleText() const {
  const std::string &planned = plan.optimizer().lr_schedule();
  return !options.schedule.empty() ? options.schedule : !planned.empty() ? planned : "constant";
}

/// How many steps, which learning rates.
Status Run::makeSchedule() {
  double epochs = options.epochs > 0 ? options.epochs : 1;
  int64_t done = resumed ? resumed->step : 0;
  double left = epochs * double(source->samples()) - double(positionAfter(done));
  summary.steps = options.steps > 0 ? options.steps
                                    : done + int64_t(std::ceil(std::max(left, 0.0) / double(summary.samplesPerStep)));
  if (double(summary.steps) * double(summary.samplesPerStep) > 0x1p60)
    return makeError(Code::usage, 943, "the run would take more than 2^60 samples", "--steps");
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
  manifest.plan.hash = planHash(plan);
  manifest.plan.samplesPerStep = summary.samplesPerStep;
  manifest.optimizer.lr = options.lr.value_or(plan.optimizer().lr());
  manifest.optimizer.schedule = scheduleText();
  manifest.optimizer.warmup = schedule.warmup();
  if (ranks.firstRank() == 0) { // the others see samples of it (identify)
    auto fingerprint = source->fingerprint();
    if (!fingerprint)
      return fingerprint.error();
    manifest.data = {*fingerprint, source->samples(), options.data.shuffle, options.data.shiftLabels, 0};
  }
  return identify(optionsOf(options, seed, summary.steps));
}

Status Run::open() {
  auto locked = RunFolder::open(outputFolder(options, plan));
  if (!locked)
    return locked.error();
  folder = std::move(*locked);
  summary.out = folder.name();
  checkpoints = CheckpointFolder(folder.name());
  ZC_RETURN_IF_ERROR(checkpoints.recover([this](const std::string &text) { observer.warning(text); }));
  ZC_RETURN_IF_ERROR(resume());
  if (!values && !resumed)
    ZC_RETURN_IF_ERROR(prepareWeights());
  ZC_RETURN_IF_ERROR(metrics.open(folder.name() + "/metrics.jsonl", summary.firstStep - 1));
  return record(true);
}

Status Run::resume() {
  if (options.overwrite)
    ZC_RETURN_IF_ERROR(checkpoints.clear());
  else if (options.resume.empty())
    return checkFresh(summary.out);
  if (options.resume.empty())
    return Status::success();
  auto tell = [this](const std::string &text) { observer.warning(text); };
  auto found = findCheckpoint(summary.out, options.resume, tell);
  if (!found)
    return found.error();
  if (!*found)
    return Status::success();
  ZC_RETURN_IF_ERROR(checkResumes(plan, **found, manifest, options));
  resumed = std::move(*found);
  std::error_code ignored;
  bool isOurs = std::filesystem::equivalent(io::folderOf(resumed->folder), summary.out, ignored);
  if (!isOurs)
    ZC_RETURN_IF_ERROR(checkFresh(summary.out));
  else if (options.resume != "auto")
    ZC_RETURN_IF_ERROR(checkpoints.abandonAfter(resumed->step, tell));
  if (isOurs)
    checkpoints.trust(summary.out + "/" + io::fileNameOf(resumed->folder));
  observer.note("continuing after step " + std::to_string(resumed->step) + " of \"" + resumed->folder + "\"");
  for (const std::string &line : changesOf(*resumed, manifest))
    observer.note(line);
  ZC_RETURN_IF_ERROR(goOn());
  if (resumed->step >= summary.steps)
    tell("the run is at step " + std::to_string(resumed->step) + " already, no step of " +
         std::to_string(summary.steps) + " is left to do");
  return Status::success();
}

Status Run::goOn() {
  source->startAt(resumed->step, resumed->data.position);
  summary.firstStep = resumed->step + 1;
  return makeSchedule();
}

Status Run::share(Communicator &communicator) {
  struct {
    char out[4096] = {}, resume[4096] = {};
    int64_t step = -1;
  } found;
  auto write = [](char(&to)[4096], const std::string &from) {
    std::memcpy(to, from.data(), std::min(from.size(), sizeof to - 1));
  };
  if (communicator.rank() == 0) {
    write(found.out, summary.out);
    if (resumed) {
      write(found.resume, resumed->folder);
      found.step = resumed->step;
    }
  }
  ZC_RETURN_IF_ERROR(communicator.broadcast({&found, sizeof found, 0}));
  if (communicator.rank() == 0 || !isFirst(communicator))
    return Status::success();
  summary.out = found.out;
  checkpoints = CheckpointFolder(summary.out);
  if (found.step >= 0) {
    auto manifest = readManifest(found.resume); // rank 0 has verified the files
    if (!manifest)
      return manifest.error();
    if (manifest->step != found.step)
      return makeError(Code::mismatch, 949,
                       "the checkpoint is of step " + std::to_string(manifest->step) + " here but of step " +
                           std::to_string(found.step) + " on rank 0",
                       found.resume, "the run's folder must be the same for all ranks");
    resumed = std::move(*manifest);
    ZC_RETURN_IF_ERROR(goOn());
  } else if (!values) {
    ZC_RETURN_IF_ERROR(prepareWeights());
  }
  return record(false);
}

} // namespace zc::train
