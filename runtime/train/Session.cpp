#include "runtime/train/Session.h"

#include "base/Clock.h"
#include "base/Limits.h"
#include "base/Names.h"
#include "base/Size.h"
#include "runtime/comm/Inproc.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/device/Arena.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/train/BatchSpec.h"
#include "runtime/train/RunFolder.h"

#include <algorithm>
#include <unistd.h>

namespace zc::train {

void addDifference(Traffic &sum, const Traffic &before, const Traffic &after) {
  sum.gather += after.gather - before.gather;
  sum.reduceScatter += after.reduceScatter - before.reduceScatter;
  sum.allReduce += after.allReduce - before.allReduce;
  sum.model += after.model - before.model;
  sum.interNode += after.interNode - before.interNode;
  sum.intraNode += after.intraNode - before.intraNode;
  sum.h2d += after.h2d - before.h2d;
  sum.d2h += after.d2h - before.d2h;
  sum.nvmeRead += after.nvmeRead - before.nvmeRead;
  sum.nvmeWrite += after.nvmeWrite - before.nvmeWrite;
}

Session::Session(const planpb::Plan &plan, const JobOptions &job, const RunControl &control, RunObserver &observer)
    : plan(plan), mesh(meshOf(plan)), job(job), control(control), observer(observer),
      threads(control.ranks ? nullptr : makeInprocGroup(mesh)), ranks(control.ranks ? *control.ranks : *threads),
      memory(plan, ranks.count()) {
  if (job.watchdog <= 0 || !control.end)
    return;
  watchdog.explain(control.stop, control.say);
  watchdog.start(ranks.firstRank(), ranks.count(), job.watchdog, control.end);
}

Status Session::prepareJob() {
  const int started = ranks.mesh().worldSize();
  if (started != mesh.worldSize())
    return makeError(Code::mismatch, 948,
                     "the plan is for " + counted(mesh.worldSize(), "rank") + " but " + std::to_string(started) +
                         (started == 1 ? " was started" : " were started"),
                     job.plan, "zero-compile --world-size " + std::to_string(started));
  std::string note;
  ZC_RETURN_IF_ERROR(checkMachines(ranks, note));
  if (!note.empty() && ranks.firstRank() == 0)
    observer.note(note);
  registerCpuKernels(registry);
  return Status::success();
}

/// How many ranks run on this machine.
static int ranksHere(const RankGroup &ranks) {
  std::vector<int> machines = ranks.machines();
  return machines.empty() ? ranks.count()
                          : int(std::count(machines.begin(), machines.end(), machines[size_t(ranks.firstRank())]));
}

/// Which of this machine's ranks it is.
static int localRankOf(const RankGroup &ranks, int rank) {
  std::vector<int> machines = ranks.machines();
  return machines.empty() ? rank - ranks.firstRank()
                          : int(std::count(machines.begin(), machines.begin() + rank, machines[size_t(rank)]));
}

static bool keepsOnNvme(const planpb::Plan &plan) {
  return std::any_of(plan.arenas().begin(), plan.arenas().end(),
                     [](const planpb::Arena &arena) { return arena.tier() == planpb::NVME && arena.bytes() > 0; });
}

/// All ranks of this machine together must find their memory here, before any takes its own.
static Status checkTiers(const planpb::Plan &plan, DeviceKind device, const NvmeOptions &nvme, uint64_t ranks) {
  uint64_t memory = 0;
  for (const planpb::Arena &arena : plan.arenas())
    if (arena.tier() == planpb::HOST || (arena.tier() == planpb::DEVICE && !isCuda(device)))
      memory += arena.bytes();
    else if (arena.tier() == planpb::NVME && arena.bytes() > 0)
      ZC_RETURN_IF_ERROR(NvmeArena::check(nvme, arena.bytes(), ranks));
  return Arena::checkFree(memory > UINT64_MAX / ranks ? UINT64_MAX : memory * ranks);
}

Status Session::chooseDevice() {
  device = job.device.value_or(plan.target() == planpb::CUDA ? DeviceKind::cuda : DeviceKind::cpu);
  Status there = isCuda(device) ? checkCuda() : Status();
  if (!ranks.isWhole())
    return {}; // ranks elsewhere may have one: all hear of it when they open their devices (agreeOnDevices)
  if (!there.ok() && !job.device) {
    there.error().where = job.plan;
    there.error().note = "the plan is for cuda";
    there.error().help = "--device cpu gives the same results on this machine, slowly";
  }
  return there;
}

Status Session::prepareData() {
  ZC_RETURN_IF_ERROR(chooseDevice());
  ZC_RETURN_IF_ERROR(checkTiers(plan, device, job.nvme, uint64_t(ranksHere(ranks))));
  if (!job.nvme.folder.empty() && !keepsOnNvme(plan) && ranks.firstRank() == 0)
    observer.note("--nvme-dir is not used: the plan keeps nothing on the nvme tier");
  data::DataOptions dataOptions = job.data;
  seed = job.seed.value_or(plan.seed());
  dataOptions.seed = seed;
  dataOptions.isRepeated = !plan.forward_only();
  batch = batchOf(plan);
  auto opened = openData(dataOptions, batch);
  if (!opened)
    return opened.error();
  source = std::move(*opened);
  tellOfData();
  summary.samplesPerStep = batch.samplesPerStep();
  summary.tokensPerSample = source->tokensPerSample();
  summary.worldSize = mesh.worldSize();
  summary.threads = job.threads > 0 ? job.threads : threadsPerRank(cpuLimit(), ranks.count(), ranksHere(ranks));
  return prepareProducts();
}

Status Session::prepareProducts() {
  const auto shapes = isCuda(device) ? std::set<ProductShape>() : productsOf(plan, summary.threads);
  auto found = productsInUse(job.products, shapes);
  ZC_RETURN_IF_ERROR(found.status());
  products = std::move(*found);
  if (!products.note.empty() && ranks.firstRank() == 0)
    observer.warning(products.note);
  if (products.table)
    summary.products = counted(int64_t(products.table->size()), "product") + " as in " + products.path;
  return shapes.empty() ? Status::success() : checkAddresses();
}

/// A library that finds no room for what its threads multiply in would ask for it for ever. What is mapped once steps
/// run is what arenas and those threads take.
Status Session::checkAddresses() const {
  constexpr uint64_t kStack = uint64_t(8) << 20;
  constexpr uint64_t kHeaps = uint64_t(256) << 20; // the allocator's, of threads that wait, read and write
  const uint64_t threads = uint64_t(summary.threads) * uint64_t(ranks.count()),
                 products = threads * addressesOfProducts();
  if (products == 0 || canMap(memory.plannedBytes() + products + threads * kStack + kHeaps))
    return Status::success();
  return makeError(Code::budget, 983,
                   "ulimit -v leaves too few addresses: the plan's arenas take " + showSize(memory.plannedBytes()) +
                       ", and buffers of " + counted(int64_t(threads), "thread") + " that multiply " +
                       showSize(products),
                   {}, "give a higher ulimit -v, or none, or fewer threads (--threads)");
}

Result<std::unique_ptr<data::InputSource>> Session::openData(const data::DataOptions &options,
                                                             const data::BatchSpec &batch) {
  auto opened = data::openSource(options, batch);
  if (!opened || ranks.firstRank() != 0)
    return opened;
  data::Patience patience;
  patience.begun = nanoseconds();
  auto whole = (*opened)->check(patience);
  if (!whole)
    return whole.error();
  if (!*whole)
    observer.note("the data take more than a minute to read: indices and labels are checked as they are used");
  return opened;
}

void Session::tellOfData() {
  data::LabelMaking labels = source->labels();
  if (ranks.firstRank() == 0 && labels.isDoubtful)
    observer.warning(labels.text);
  else if (ranks.firstRank() == 0 && !labels.text.empty())
    observer.note(labels.text);
  if (ranks.firstRank() == 0 && !source->rows().empty())
    observer.note(source->rows());
}

Status Session::prepareWeights() {
  // One process reads the whole model to see that it is the one compiled; the others read only their parts.
  bool whole = ranks.firstRank() == 0;
  auto initial = job.weights.empty() ? InitialValues::fromModel(plan, whole)
                                     : InitialValues::from(plan, job.weights, [&](const std::string &text) {
                                         if (whole)
                                           observer.warning(text);
                                       });
  if (!initial)
    return initial.error();
  values = std::move(*initial);
  return Status::success();
}

Status Session::loadFirstWeights(Communicator &communicator, RankExecutor &executor, bool &ready) {
  Identity mine = identity;
  Status loaded = loadWeights(executor, *values);
  if (loaded.ok() && !ranks.isWhole()) {
    auto print = values->fingerprint(plan);
    mine.weights = print ? *print : 0;
    loaded = print.status();
  }
  return agreeOn(communicator, mine, loaded, ready);
}

Status Session::identify(uint64_t options) {
  if (ranks.isWhole()) // nobody to differ from
    return Status::success();
  auto data = dataOf(*source, batch, summary.steps);
  if (!data)
    return data.error();
  identity.plan = planHash(plan);
  identity.world = uint64_t(mesh.worldSize());
  identity.perNode = uint64_t(mesh.ranksPerNode());
  identity.data = *data;
  identity.schedule = collectivesOf(plan);
  identity.options = options;
  identity.products = hashOf(products.table.get());
  return Status::success();
}

Status Session::record(bool create) {
  std::string file = flight();
  bool isShared = !ranks.isWhole() && !file.empty();
  auto opened = isShared ? FlightRecorder::open(file, ranks.mesh(), create) : FlightRecorder::create(ranks.mesh());
  if (!opened)
    return opened.error();
  recorder = std::move(*opened);
  std::string dump = (summary.out.empty() ? "." : summary.out) + "/" + kRecorderDump;
  if (isShared || ranks.isWhole())
    watchdog.observe(*recorder, std::move(dump));
  return Status::success();
}

Status Session::agreeWith(Communicator &communicator, const Status &prepared, bool &ready) {
  return agreeOn(communicator, identity, prepared, ready);
}

Status Session::agreeOn(Communicator &communicator, const Identity &mine, const Status &prepared, bool &ready) {
  auto refusal = agree(communicator, mine, prepared);
  if (!refusal)
    return refusal.error();
  ready = !refusal->has_value();
  if (!ready)
    endWith(communicator, std::move(**refusal));
  return Status::success();
}

Status Session::begin(Communicator &communicator, bool &ready) {
  bool leads = communicator.rank() == 0;
  ZC_RETURN_IF_ERROR(agreeWith(communicator, prepared, ready));
  if (!ready)
    return Status::success();
  ZC_RETURN_IF_ERROR(agreeWith(communicator, leads ? open() : Status::success(), ready));
  if (!ready)
    return Status::success();
  ZC_RETURN_IF_ERROR(share(communicator));
  ZC_RETURN_IF_ERROR(communicator.barrier());
  if (std::string file = flight(); leads && !file.empty())
    ::unlink(file.c_str()); // all have it mapped: nothing of it is to be left behind
  communicator.recordInto(&recorder->log(communicator.rank()));
  return Status::success();
}

Result<std::unique_ptr<RankExecutor>> Session::prepareExecutor(const planpb::Plan &ofPlan, Communicator &communicator,
                                                               const ExecutorOptions &options, InputLoader &loader) {
  ExecutorOptions own = options;
  own.localRank = localRankOf(ranks, communicator.rank());
  own.localRanks = ranksHere(ranks);
  auto executor = prepareRank(ofPlan, own, communicator, registry, loader);
  if (executor)
    ZC_RETURN_IF_ERROR(warn(communicator, (*executor)->notes()));
  return executor;
}

Status Session::warn(Communicator &communicator, const std::vector<std::string> &warnings) {
  auto first = firstToTell(communicator, warnings);
  ZC_RETURN_IF_ERROR(first.status());
  std::lock_guard<std::mutex> lock(warnedMutex);
  for (const std::string &text : *first)
    if (warned.insert(text).second)
      observer.warning(isFirst(communicator) ? text : "rank " + std::to_string(communicator.rank()) + ": " + text);
  return Status::success();
}

ExecutorOptions Session::executorOptions() const {
  ExecutorOptions options;
  options.device = device;
  options.graphs = job.graphs;
  options.threads = summary.threads;
  options.seed = seed;
  options.products = products.table;
  options.nvme = job.nvme;
  options.reserve = job.reserve;
  options.links = job.links;
  return options;
}

} // namespace zc::train
