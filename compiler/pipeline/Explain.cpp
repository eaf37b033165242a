//===- Explain.cpp - the offload that was chosen, and the others -----------------------===//

#include "compiler/pipeline/Explain.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace zc;

namespace {

constexpr const char *kTiers[] = {"none", "host", "nvme"};

/// Megabytes of a number inside the report.
std::string megabytes(const llvm::json::Object &object, llvm::StringRef key) {
  return llvm::formatv("{0:f1}", static_cast<double>(object.getInteger(key).value_or(0)) / 1e6).str();
}

/// One line: peaks of the tiers, bytes of the links, seconds.
std::string row(const CompileOptions &placement, bool chosen, const llvm::json::Object &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("{0} {1,9} {2,6} ", chosen ? ">" : " ", placement.offloadOptimizer, placement.offloadParam);
  for (const char *tier : {"device", "host", "nvme"})
    out << llvm::formatv("{0,11}", megabytes(*report.getObject("tiers")->getObject(tier), "peak_bytes"));
  for (const char *link : {"d2h", "h2d", "nvme_read", "nvme_write"})
    out << llvm::formatv("{0,11}", megabytes(*report.getObject("traffic"), link));
  out << llvm::formatv("{0,10:f3}\n", report.getNumber("predicted_step_seconds").value_or(0));
  return text;
}

} // namespace

Result<std::string> zc::explainOffload(const CompileOptions &options) {
  std::string text =
      llvm::formatv("  {0,9} {1,6} {2,11}{3,11}{4,11}{5,11}{6,11}{7,11}{8,11}{9,10}\n", "optimizer", "param",
                    "device MB", "host MB", "nvme MB", "d2h MB", "h2d MB", "read MB", "write MB", "seconds");
  for (const char *optimizer : kTiers)
    for (const char *param : kTiers) {
      CompileOptions placement = options;
      placement.output.clear();
      placement.dumpPhasesTo.clear();
      placement.stopAfter = Phase::emit;
      placement.budgets = {}; // what each needs is the question
      placement.offloadOptimizer = optimizer;
      placement.offloadParam = param;
      if (options.forwardOnly && placement.offloadOptimizer != "none")
        continue;
      if (!placement.placementIsValid())
        continue;
      Result<CompileResult> compiled = compile(placement);
      if (!compiled)
        return compiled.error();
      llvm::Expected<llvm::json::Value> report = llvm::json::parse(compiled->reportJson);
      if (!report)
        return makeError(Code::internal, 442, llvm::toString(report.takeError()));
      bool chosen = options.offloadOptimizer == optimizer && options.offloadParam == param;
      text += row(placement, chosen, *report->getAsObject());
    }
  if (options.delayAfter >= 0)
    text += llvm::formatv("After step {0} the update on the host runs beside the next step, with parameters one update "
                          "old; seconds are those of such steps.\n",
                          options.delayAfter);
  return text + "> is the placement asked for. A step moves these bytes per rank; seconds are those of the cost model "
                "(--machine).\n";
}
