#include "runtime/train/Run.h"

#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace zc::train {

void Run::prepare() { prepared = prepareAll(); }

Status Run::prepareAll() {
  if (uint32_t(ranks.mesh().worldSize) != plan.world_size())
    return makeError(Code::mismatch, 948,
                     "the plan is for " + std::to_string(plan.world_size()) + " ranks but " +
                         std::to_string(ranks.mesh().worldSize) + " were started",
                     options.plan, "zero-compile --world-size " + std::to_string(ranks.mesh().worldSize));
  std::string note;
  ZC_RETURN_IF_ERROR(checkMachines(ranks, note));
  if (!note.empty() && ranks.firstRank() == 0)
    observer.note(note);
  ZC_RETURN_IF_ERROR(prepareData());
  // A wrong model must not leave a folder behind; only where a checkpoint may replace it, it is looked at later.
  if (options.resume.empty())
    ZC_RETURN_IF_ERROR(prepareWeights());
  registerCpuKernels(registry);
  return Status::success();
}

/// Threads for each of this process's ranks. A process that is bound to some of the machine's cores has those; else the
/// cores are shared with the other ranks of this machine.
static int defaultThreads(const RankGroup &ranks) {
  int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  int sharers = ranks.count();
  std::vector<int> machines = ranks.machines();
  bool bound = cores < int(::sysconf(_SC_NPROCESSORS_ONLN));
  if (!machines.empty() && !bound)
    sharers = int(std::count(machines.begin(), machines.end(), machines[size_t(ranks.firstRank())]));
  return std::max(1, cores / sharers);
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
  summary.threads = options.threads > 0 ? options.threads : defaultThreads(ranks);
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
  if (ranks.isWhole()) // nobody to differ from
    return Status::success();
  auto data = dataOf(*source, batch, summary.steps);
  if (!data)
    return data.error();
  identity = {manifest.planHash,     plan.world_size(),
              plan.ranks_per_node(), *data,
              collectivesOf(plan),   optionsOf(options, seed, summary.steps)};
  return Status::success();
}

/// The weights of a fresh start, the model's or the user's; a checkpoint's are read by the ranks.
Status Run::prepareWeights() {
  // One process reads the whole model to see that it is the one compiled; the others read only their parts.
  bool whole = ranks.firstRank() == 0;
  auto initial = options.weights.empty() ? InitialValues::fromModel(plan, whole)
                                         : InitialValues::fromSafetensors(plan, options.weights);
  if (!initial)
    return initial.error();
  values = std::move(*initial);
  return Status::success();
}

Status Run::openFolder() {
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

Status Run::shareFolder(Communicator &communicator) {
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

Status Run::record(bool create) {
  auto opened = ranks.isWhole() ? FlightRecorder::create(ranks.mesh().worldSize)
                                : FlightRecorder::open(summary.out + "/.flight", ranks.mesh().worldSize, create);
  if (!opened)
    return opened.error();
  recorder = std::move(*opened);
  if (options.watchdog > 0 && control.end)
    watchdog.start(*recorder, ranks.firstRank(), ranks.count(), options.watchdog, summary.out + "/flight-recorder.json",
                   control.end);
  return Status::success();
}

} // namespace zc::train
