#include "base/Shell.h"
#include "base/Size.h"
#include "runtime/launch/Mpirun.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/train/RunFolder.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Files.h"
#include "tools/zero-run/Progress.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace zc::run {

static std::string ownPath() {
  char self[PATH_MAX];
  ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  return length > 0 ? std::string(self, size_t(length)) : "zero-run";
}

static Status checkTotal(int total, const planpb::Plan &plan, const std::string &path) {
  const int planned = worldSizeOf(plan);
  if (total == planned)
    return Status::success();
  return makeError(Code::mismatch, 991,
                   "the plan is for " + counted(planned, "rank") + " but --hosts gives " + std::to_string(total), path,
                   "zero-compile --world-size " + std::to_string(total));
}

Status launchCommand(const Flags &flags) {
  if (flags.comm == Connection::inproc)
    return makeError(Code::usage, 986,
                     "--hosts starts a process for each rank, --comm inproc has ranks as threads of one", "--comm",
                     "give one of them");
  if (std::getenv("OMPI_COMM_WORLD_SIZE"))
    return makeError(Code::usage, 987, "--hosts starts mpirun, but this process was started by one", "--hosts",
                     "leave --hosts out: mpirun -n RANKS zero-run PLAN ...");
  auto hosts = launch::parseHosts(flags.hosts, std::max(1, flags.run.worldSize));
  if (!hosts)
    return hosts.error();
  auto plan = openPlan(flags.run.plan);
  if (!plan)
    return plan.error();
  ZC_RETURN_IF_ERROR(checkTotal(launch::ranksOf(*hosts), *plan, flags.run.plan));
  launch::MpiJob job;
  job.hosts = std::move(*hosts);
  job.command = launch::mpirunCommand(job.hosts, ownPath(), flags.forwarded);
  job.initTimeout = flags.initTimeout;
  job.out = outputFolder(flags.run, *plan);
  job.say = [](const std::string &line) { print(2, line); };
  std::string shown = "running";
  for (const std::string &word : job.command)
    shown += " " + shellQuoted(word);
  print(2, shown + "\n");
  return launch::runMpirun(job);
}

} // namespace zc::run
