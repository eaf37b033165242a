#include "runtime/train/Train.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Verify.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Process.h"
#include "tools/zero-run/Progress.h"

#include <cstdlib>

namespace zc::run {

/// A launcher's environment asks for one rank per process, which needs MPI.
static Status checkLauncher(const Flags &flags) {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}) {
    const char *size = std::getenv(name);
    if (size && std::atoi(size) > 1 && flags.run.worldSize == 0)
      return makeError(Code::unsupported, 964,
                       std::string(name) + "=" + size + ": ranks as processes are not in this build", "",
                       "give -n to run the ranks as threads of one process");
  }
  return Status::success();
}

static Status checkRanks(const Flags &flags, const planpb::Plan &plan) {
  int asked = flags.run.worldSize;
  if (asked == 0 || asked == int(plan.world_size()))
    return Status::success();
  return makeError(Code::mismatch, 966,
                   "the plan is for " + std::to_string(plan.world_size()) + " ranks but -n gives " +
                       std::to_string(asked),
                   flags.run.plan, "zero-compile --world-size " + std::to_string(asked));
}

Status trainCommand(const Flags &flags) {
  ZC_RETURN_IF_ERROR(checkLauncher(flags));
  auto plan = readPlan(flags.run.plan);
  if (!plan)
    return plan.error();
  ZC_RETURN_IF_ERROR(checkRanks(flags, *plan));
  ZC_RETURN_IF_ERROR(verifyPlan(*plan));
  train::RunOptions options = flags.run;
  const char *links = std::getenv("ZERO_LINK");
  auto rates = parseLinkRates(links ? links : "");
  if (!rates)
    return rates.error();
  options.links = *rates;
  Progress progress(flags);
  auto report = train::train(*plan, options, {&catchSignals(), allocations}, progress);
  progress.close();
  if (!report)
    return report.error();
  print(1, toJson(*report) + "\n");
  return Status::success();
}

} // namespace zc::run
