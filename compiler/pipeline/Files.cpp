//===- Files.cpp - what a compilation writes ------------------------------------------------===//

#include "compiler/pipeline/Files.h"
#include "compiler/emit/ExternalFiles.h"
#include "compiler/emit/MemoryPage.h"
#include "compiler/emit/PlannedTrace.h"
#include "compiler/emit/Report.h"
#include "compiler/import/Import.h"
#include "dialects/graph/NodeNames.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Outputs.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Verify.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace zc;

static std::string dumpOf(const Stage &stage, const CompileOptions &options) {
  return options.dumpPhasesTo + "/" + std::to_string(static_cast<int>(stage.phase) + 1) + "-" + stage.name + ".mlir";
}

Status zc::checkFiles(ModuleOp imported, const CompileOptions &options) {
  const std::string folder = io::folderOf(options.model);
  std::vector<NamedPath> inputs = {
      {"--config", options.config.path},
      {"--machine", options.strategy.schedule.machine.file},
      {"--ort-checkpoint", folder + "/" + options.import.ortCheckpoint.value_or("checkpoint")},
      {"--ort-optimizer", folder + "/" + options.import.ortOptimizer.value_or("optimizer_model.onnx")}};
  for (const std::string &file : importer::filesOf(imported))
    inputs.push_back({"", file});
  for (const ParamGroup &group : options.import.paramGroups)
    inputs.push_back({"--param-groups", group.file});
  const FileKind becomes = options.stopAfter == Phase::emit ? FileKind::plan : FileKind::unknown;
  std::vector<NamedPath> outputs = {written("-o", options.output == "-" ? "" : options.output, becomes),
                                    written("--memory-html", options.memoryHtml, FileKind::unknown),
                                    written("--emit-trace", options.emitTrace, FileKind::unknown)};
  outputs.push_back({"--dump-phases-to", options.dumpPhasesTo, /*isShared=*/true});
  for (const Stage &stage : kStages)
    if (!options.dumpPhasesTo.empty())
      outputs.push_back({"--dump-phases-to", dumpOf(stage, options)});
  return checkOutputs(inputs, outputs);
}

Status zc::dump(ModuleOp module, const Stage &stage, const CompileOptions &options) {
  if (options.dumpPhasesTo.empty())
    return Status::success();
  ZC_RETURN_IF_ERROR(io::makeFolder(options.dumpPhasesTo));
  std::string text;
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, /*prettyForm=*/false); // locations are ONNX nodes: worth reading, needed to go on
  llvm::raw_string_ostream out(text);
  graph::spellLocations(module);
  module.print(out, flags);
  out << '\n';
  return io::writeFileAtomically(dumpOf(stage, options), text);
}

Status zc::writeFiles(planpb::Plan &plan, const CompileOptions &options) {
  if (!options.output.empty())
    ZC_RETURN_IF_ERROR(recordExternalFiles(plan));
  fillReport(plan, options.strategy.schedule.budgets);
  if (Status status = verifyPlan(plan); !status.ok()) {
    Error error = status.error();
    error.code = Code::internal;
    error.note = "the compiler made a plan that does not verify; please report it with the model";
    return error;
  }
  if (!options.memoryHtml.empty())
    ZC_RETURN_IF_ERROR(io::writeFileAtomically(options.memoryHtml, memoryPage(plan)));
  if (!options.emitTrace.empty())
    ZC_RETURN_IF_ERROR(io::writeFileAtomically(options.emitTrace, plannedTrace(plan, playTimeline(plan))));
  const bool isFile = !options.output.empty() && options.output != "-"; // else the driver's caller has the bytes
  return isFile ? writePlan(options.output, plan) : Status::success();
}
