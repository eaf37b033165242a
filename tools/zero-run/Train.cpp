#include "runtime/io/OutputFile.h"
#include "runtime/train/Evaluate.h"
#include "runtime/train/RunFolder.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Process.h"
#include "tools/zero-run/Progress.h"
#include "tools/zero-run/Ranks.h"

#include <cstdlib>

namespace zc::run {

static Status readLinks(train::JobOptions &options) {
  const char *links = std::getenv("ZERO_LINK");
  auto rates = parseLinkRates(links ? links : "");
  if (!rates)
    return rates.error();
  options.links = *rates;
  return Status::success();
}

static train::RunControl controlOf(const Flags &flags, RankGroup *ranks) {
  train::RunControl control;
  if (flags.grace > 0)
    setGrace(flags.grace);
  control.stop = &catchSignals();
  control.allocations = allocations;
  control.ranks = ranks;
  control.end = endProcess;
  control.say = [](const std::string &text) { tell(2, "warning: " + text + "\n"); };
  return control;
}

static Status trainRanks(const Flags &flags, const planpb::Plan &plan, RankGroup *ranks) {
  int first = ranks ? ranks->firstRank() : 0;
  train::RunOptions options = flags.run;
  ZC_RETURN_IF_ERROR(readLinks(options));
  Progress progress(flags, first);
  train::RunControl control = controlOf(flags, ranks);
  traceCrashes(outputFolder(flags.run, plan) + "/" + train::crashFile(first));
  auto report = train::train(plan, options, control, progress);
  progress.close();
  if (!report)
    return ranks ? endRank(*ranks, report.error()) : Status(report.error());
  if (first == 0 && !flags.quiet)
    print(2, report->profile);
  return first == 0 ? io::writeToStdout(toJson(*report) + "\n") : Status::success();
}

static Status evaluateRanks(const Flags &flags, const planpb::Plan &plan, RankGroup *ranks) {
  int first = ranks ? ranks->firstRank() : 0;
  train::EvalOptions options;
  static_cast<train::JobOptions &>(options) = flags.run;
  options.outputs = flags.outputs;
  ZC_RETURN_IF_ERROR(readLinks(options));
  Progress progress(flags, first);
  train::RunControl control = controlOf(flags, ranks);
  auto report = train::evaluate(plan, options, control, progress);
  progress.close();
  if (!report)
    return ranks ? endRank(*ranks, report.error()) : Status(report.error());
  return first == 0 ? io::writeToStdout(toJson(*report) + "\n") : Status::success();
}

Status trainCommand(const Flags &flags) {
  return runAsRanks(flags, [&](const planpb::Plan &plan, RankGroup *ranks) { return trainRanks(flags, plan, ranks); });
}

Status evalCommand(const Flags &flags) {
  return runAsRanks(flags,
                    [&](const planpb::Plan &plan, RankGroup *ranks) { return evaluateRanks(flags, plan, ranks); });
}

} // namespace zc::run
