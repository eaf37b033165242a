//===- Explain.cpp - the offload that was chosen, and the others -----------------------===//

#include "compiler/pipeline/Explain.h"
#include "base/Size.h"
#include "compiler/pipeline/Driver.h"
#include "compiler/pipeline/Fit.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdio>
#include <utility>

using namespace zc;

namespace {

constexpr Offload kTiers[] = {Offload::none, Offload::host, Offload::nvme};

double numberOf(const llvm::json::Object &object, llvm::StringRef key) {
  return static_cast<double>(object.getInteger(key).value_or(0));
}

uint64_t bytesOf(const llvm::json::Object &object, llvm::StringRef key) {
  return static_cast<uint64_t>(object.getInteger(key).value_or(0));
}

/// Does each tier's peak keep to its budget?
bool keeps(const llvm::json::Object &report, const Budgets &budgets) {
  auto peakOf = [&](llvm::StringRef tier) {
    return static_cast<int64_t>(bytesOf(*report.getObject("tiers")->getObject(tier), "peak_bytes"));
  };
  return fits({peakOf("device"), peakOf("host"), peakOf("nvme")}, budgets);
}

/// What the plan of `options` takes and moves. Errors: those of compiling.
Result<llvm::json::Object> reportOf(const CompileOptions &options) {
  Result<CompileResult> compiled = compile(options);
  if (!compiled)
    return compiled.error();
  llvm::Expected<llvm::json::Value> report = llvm::json::parse(compiled->reportJson);
  if (!report)
    return makeError(Code::internal, 309, llvm::toString(report.takeError()));
  return std::move(*report->getAsObject());
}

/// What `placement` takes without budgets; where that is too much, what it takes within them, if it can. Errors: those
/// of compiling.
Result<llvm::json::Object> explained(CompileOptions placement) {
  const Budgets budgets = std::exchange(placement.strategy.schedule.budgets, {});
  Result<llvm::json::Object> report = reportOf(placement);
  if (!report || keeps(*report, budgets))
    return report;
  placement.strategy.schedule.budgets = budgets;
  Result<llvm::json::Object> within = reportOf(placement);
  return within || within.error().code != Code::budget ? within : report;
}

/// One line: peaks of the tiers; bytes of the links, and how many they are per parameter of this rank's share; seconds.
std::string row(const ShardOptions &placement, CheckpointPolicy recompute, bool chosen, const Budgets &budgets,
                const llvm::json::Object &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  const char *isKept = budgets == Budgets() ? "-" : keeps(report, budgets) ? "yes" : "no";
  const llvm::json::Object &traffic = *report.getObject("traffic");
  out << llvm::formatv("{0} {1,9} {2,6} {3,10} {4,5}", chosen ? ">" : " ", nameOf(placement.offloadOptimizer),
                       nameOf(placement.offloadParam), nameOf(recompute), isKept);
  for (const char *tier : {"device", "host", "nvme"})
    out << llvm::formatv("{0,12}", showSize(bytesOf(*report.getObject("tiers")->getObject(tier), "peak_bytes")));
  for (const char *link : {"d2h", "h2d", "nvme_read", "nvme_write"})
    out << llvm::formatv("{0,12}", showSize(bytesOf(traffic, link)));
  double share = std::max(1.0, numberOf(report, "parameters") / static_cast<double>(placement.worldSize));
  out << llvm::formatv("{0,9:f2}", (numberOf(traffic, "d2h") + numberOf(traffic, "h2d")) / share);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%10.3g\n", report.getNumber("predicted_step_seconds").value_or(0));
  out << seconds;
  return text;
}

} // namespace

Result<std::string> zc::explainOffload(const CompileOptions &options) {
  std::string text = llvm::formatv(
      "  {0,9} {1,6} {2,10} {3,5}{4,12}{5,12}{6,12}{7,12}{8,12}{9,12}{10,12}{11,9}{12,10}\n", "optimizer", "param",
      "recompute", "fits", "device", "host", "nvme", "d2h", "h2d", "read", "write", "B/param", "seconds");
  const Strategy &given = options.strategy;
  const CheckpointPolicy asked = given.grad.checkpoint;
  for (Offload optimizer : kTiers)
    for (Offload param : kTiers)
      for (CheckpointPolicy recompute : {CheckpointPolicy::none, CheckpointPolicy::block}) {
        bool isAsked = recompute == CheckpointPolicy::none;
        if (!isAsked && (options.isGiven("checkpoint-activations") || options.import.forwardOnly))
          continue;
        CompileOptions placement = predicting(options);
        placement.strategy.grad.checkpoint = isAsked ? asked : recompute;
        ShardOptions &shard = placement.strategy.shard;
        shard.offloadOptimizer = optimizer;
        shard.offloadParam = param;
        if ((options.import.forwardOnly && optimizer != Offload::none) || !validate(shard).ok())
          continue;
        Result<llvm::json::Object> report = explained(placement);
        if (!report)
          return report.error();
        bool chosen = isAsked && given.shard.offloadOptimizer == optimizer && given.shard.offloadParam == param;
        text += row(shard, placement.strategy.grad.checkpoint, chosen, given.schedule.budgets, *report);
      }
  if (given.shard.delayUpdate)
    text += llvm::formatv("After step {0} the update on the host runs beside the next step, with parameters one update "
                          "old; seconds are those of such steps.\n",
                          given.shard.delayAfter);
  return text +
         "> is the placement asked for. Whether it fits --device-mem, --host-mem, --nvme-mem; peaks of memory, of the "
         "plan made to\n"
         "fit where the plan without budgets does not; then what a step moves over the links, per rank, and d2h + h2d "
         "for each\n"
         "parameter of its share: gradients down and parameters up, once each, are the least that an optimizer on the "
         "host can do\n"
         "with. Seconds are those of the cost model (--machine).\n"
         "Below stage 3 every rank has all parameters on its device whatever --offload-param says of what lasts, and "
         "what comes\n"
         "over the link needs room beside what is in use: parameters off the device then take more of it, not less.\n";
}
