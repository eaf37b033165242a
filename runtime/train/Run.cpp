#include "runtime/train/Run.h"

#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

/// What follows from the data: how many steps, which learning rates.
Status Run::prepareSteps() {
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
  manifest = describeRun(plan, seed, source->samples(), options.data.shuffle);
  manifest.planHash = planHash(plan);
  return identify(optionsOf(options, seed, summary.steps));
}

Status Run::open() {
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
  if (!values && !resumed)
    ZC_RETURN_IF_ERROR(prepareWeights());
  ZC_RETURN_IF_ERROR(metrics.open(folder.name() + "/metrics.jsonl", summary.firstStep - 1));
  return record(true);
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
    summary.firstStep = found.step + 1;
  } else if (!values) {
    ZC_RETURN_IF_ERROR(prepareWeights());
  }
  return record(false);
}

} // namespace zc::train
