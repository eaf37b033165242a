#include "tools/zero-run/Ranks.h"

#include "base/Limits.h"
#include "base/Size.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/launch/RankLines.h"
#include "runtime/mpi/Mpi.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/train/Watchdog.h"
#include "tools/zero-run/Environment.h"
#include "tools/zero-run/Files.h"
#include "tools/zero-run/Process.h"
#include "tools/zero-run/Progress.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace zc::run {

/// Whether this process is one rank of a job that MPI connects.
static Result<bool> wantsMpi(const Flags &flags, const std::optional<LaunchedRank> &launched) {
  if (flags.comm != Connection::automatic)
    return flags.comm == Connection::mpi;
  bool several = launched && launched->size > 1;
  if (several && flags.run.worldSize > 0 && launched->sizeName.compare(0, 5, "SLURM") != 0 &&
      launched->sizeName != "WORLD_SIZE")
    return makeError(Code::usage, 964,
                     "-n " + std::to_string(flags.run.worldSize) + " asks for threads, but " + launched->sizeName +
                         "=" + std::to_string(launched->size) + " says that each process is a rank",
                     "", "leave -n to the launcher, or give --comm inproc");
  return several && flags.run.worldSize == 0;
}

static Status checkRanks(const Flags &flags, const planpb::Plan &plan) {
  int asked = flags.run.worldSize;
  const int planned = worldSizeOf(plan);
  if (asked == 0 || asked == planned)
    return Status::success();
  return makeError(Code::mismatch, 966,
                   "the plan is for " + counted(planned, "rank") + " but -n gives " + std::to_string(asked),
                   flags.run.plan, "zero-compile --world-size " + std::to_string(asked));
}

/// MPI's own idea of the job against the launcher's variables.
static Status checkEnvironment(const RankGroup &ranks, const std::optional<LaunchedRank> &launched) {
  if (!launched || (launched->rank == ranks.firstRank() && launched->size == ranks.mesh().worldSize()))
    return Status::success();
  Error error = makeError(
      Code::usage, 977,
      "the environment says rank " + std::to_string(launched->rank) + " of " + launched->sizeName + "=" +
          std::to_string(launched->size) + ", but MPI says rank " + std::to_string(ranks.firstRank()) + " of " +
          std::to_string(ranks.mesh().worldSize()),
      "", "start the ranks with mpirun, or with srun --mpi=pmix (srun --mpi=list shows which it has); or give -n");
  return error;
}

static Result<std::unique_ptr<RankGroup>> connect(const Flags &flags, const planpb::Plan &plan,
                                                  const std::optional<LaunchedRank> &launched) {
  dieWithParent();
  auto planned = [mesh = meshOf(plan)](int worldSize) { // another number of ranks is refused where the plan is known
    return worldSize == mesh.worldSize() ? mesh : Mesh::ofNodes(worldSize, worldSize);
  };
  auto ranks = connectMpi({planned, flags.initTimeout, failToMeet});
  if (!ranks)
    return ranks;
  ZC_RETURN_IF_ERROR(checkEnvironment(**ranks, launched));
  return ranks;
}

/// Where the cause is another rank's, or all have it alike, one tells: the launcher ends this process meanwhile, first
/// by a signal.
static void letOthersTell(int seconds) {
  const std::atomic<int> &signals = catchSignals();
  int before = signals.load();
  for (int i = 0; i < seconds * 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (signals.load() != before)
      ::_exit(int(Code::peerLost));
  }
}

Status endRank(RankGroup &ranks, const Error &error) {
  if (!ranks.failure()) {
    // Before MPI ends: the first process that is gone with this code makes the launcher end the others.
    if (ranks.firstRank() == 0)
      print(2, render(error) + "\n");
    return Error{error.code, error.number, "", "", "", ""};
  }
  if (error.code == Code::peerLost)
    letOthersTell(ranks.firstRank() == 0 ? 1 : 4);
  print(2, render(error) + "\n");
  announceEnd(error.code);
  ranks.kill(int(error.code));
  ::_exit(int(error.code));
}

/// The plan, fit for what is asked; where its file does not answer the process ends.
static Result<planpb::Plan> readChecked(const Flags &flags, int rank) {
  train::Watchdog watchdog;
  if (flags.run.watchdog > 0)
    watchdog.start(rank, 1, flags.run.watchdog, endProcess);
  auto plan = openPlan(flags.run.plan);
  if (!plan)
    return plan.error();
  ZC_RETURN_IF_ERROR(checkRanks(flags, *plan));
  ZC_RETURN_IF_ERROR(verifyWithPrograms(*plan));
  ZC_RETURN_IF_ERROR(checkFiles(flags, *plan));
  return plan;
}

static Status runRanks(const Flags &flags, const RanksMain &main, bool mpi,
                       const std::optional<LaunchedRank> &launched) {
  auto plan = readChecked(flags, launched ? launched->rank : 0);
  if (!plan)
    return plan.error();
  if (std::getenv(launch::kLaunchedVariable)) { // by --hosts, one rank alone as well
    dieWithParent();
    print(2, std::string(launch::kStartedLine) + std::to_string(launched ? launched->rank : 0) + "\n");
  }
  if (!mpi)
    return main(*plan, nullptr);
  auto ranks = connect(flags, *plan, launched);
  return ranks ? main(*plan, ranks->get()) : Status(ranks.error());
}

static Status runLaunched(const Flags &flags, const RanksMain &main) {
  Result<std::optional<LaunchedRank>> launched = std::optional<LaunchedRank>();
  if (flags.comm != Connection::inproc)
    launched = launchedRank(/*asThreads=*/flags.run.worldSize > 0);
  if (!launched)
    return launched.error();
  auto mpi = wantsMpi(flags, *launched);
  return mpi ? runRanks(flags, main, *mpi, *launched) : mpi.status();
}

Status runAsRanks(const Flags &flags, const RanksMain &main) {
  raiseOpenFiles(); // ranks of one process have a few each; a launcher's children are not to have all there can be
  Status status = runLaunched(flags, main);
  // Before the ranks have met, most likely all have this error; the first one tells, and its end ends the others.
  if (!status.ok() && !status.error().message.empty() && isLaterRank() && flags.comm != Connection::inproc)
    letOthersTell(2);
  return status;
}

int threadsOf(const Flags &flags, const planpb::Plan &plan) {
  const int ranks = worldSizeOf(plan);
  return flags.run.threads > 0 ? flags.run.threads : threadsPerRank(cpuLimit(), ranks, ranks);
}

} // namespace zc::run
