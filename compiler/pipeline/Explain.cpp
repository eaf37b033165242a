//===- Explain.cpp - the offload that was chosen, and the others -----------------------===//

#include "compiler/pipeline/Explain.h"
#include "compiler/pipeline/Driver.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

using namespace zc;

namespace {

constexpr Offload kTiers[] = {Offload::none, Offload::host, Offload::nvme};

double numberOf(const llvm::json::Object &object, llvm::StringRef key) {
  return static_cast<double>(object.getInteger(key).value_or(0));
}

/// "124.9 kB", "1.3 TB": models of all sizes share the columns.
std::string human(double bytes) {
  static constexpr const char *kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit)
    bytes /= 1000;
  return unit == 0 ? llvm::formatv("{0:f0} B", bytes).str() : llvm::formatv("{0:f1} {1}", bytes, kUnits[unit]).str();
}

/// One line: peaks of the tiers; bytes of the links, and how many they are per parameter of this rank's share; seconds.
std::string row(const ShardOptions &placement, bool chosen, const llvm::json::Object &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  const llvm::json::Object &traffic = *report.getObject("traffic");
  out << llvm::formatv("{0} {1,9} {2,6}", chosen ? ">" : " ", nameOf(placement.offloadOptimizer),
                       nameOf(placement.offloadParam));
  for (const char *tier : {"device", "host", "nvme"})
    out << llvm::formatv("{0,10}", human(numberOf(*report.getObject("tiers")->getObject(tier), "peak_bytes")));
  for (const char *link : {"d2h", "h2d", "nvme_read", "nvme_write"})
    out << llvm::formatv("{0,10}", human(numberOf(traffic, link)));
  double share = std::max(1.0, numberOf(report, "parameters") / static_cast<double>(placement.dataDegree()));
  out << llvm::formatv("{0,9:f2}", (numberOf(traffic, "d2h") + numberOf(traffic, "h2d")) / share);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%10.3g\n", report.getNumber("predicted_step_seconds").value_or(0));
  out << seconds;
  return text;
}

} // namespace

Result<std::string> zc::explainOffload(const CompileOptions &options) {
  std::string text =
      llvm::formatv("  {0,9} {1,6}{2,10}{3,10}{4,10}{5,10}{6,10}{7,10}{8,10}{9,9}{10,10}\n", "optimizer", "param",
                    "device", "host", "nvme", "d2h", "h2d", "read", "write", "B/param", "seconds");
  const ShardOptions &given = options.strategy.shard;
  for (Offload optimizer : kTiers)
    for (Offload param : kTiers) {
      CompileOptions placement = predicting(options);
      placement.strategy.schedule.budgets = {}; // what each needs is the question
      ShardOptions &shard = placement.strategy.shard;
      shard.offloadOptimizer = optimizer;
      shard.offloadParam = param;
      if ((options.import.forwardOnly && optimizer != Offload::none) || !validate(shard).ok())
        continue;
      Result<CompileResult> compiled = compile(placement);
      if (!compiled)
        return compiled.error();
      llvm::Expected<llvm::json::Value> report = llvm::json::parse(compiled->reportJson);
      if (!report)
        return makeError(Code::internal, 442, llvm::toString(report.takeError()));
      bool chosen = given.offloadOptimizer == optimizer && given.offloadParam == param;
      text += row(shard, chosen, *report->getAsObject());
    }
  if (given.delayUpdate)
    text += llvm::formatv("After step {0} the update on the host runs beside the next step, with parameters one update "
                          "old; seconds are those of such steps.\n",
                          given.delayAfter);
  return text + "> is the placement asked for. Peaks of memory; then what a step moves over the links, per rank, and "
                "d2h + h2d for each parameter of its share: gradients down and parameters up, once each, are the least "
                "that an optimizer on the host can do with. Seconds are those of the cost model (--machine).\n";
}
