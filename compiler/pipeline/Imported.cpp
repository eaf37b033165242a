//===- Imported.cpp - a model as the stages take it -----------------------------------------===//

#include "compiler/pipeline/Imported.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/Evaluation.h"
#include "compiler/pipeline/OwnUpdate.h"
#include "compiler/pipeline/Stages.h"
#include "compiler/schedule/CostModel.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/PlanProto.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace zc;

/// Has the graph the rows that the configuration speaks of? Its inputs begin with them.
static Status checkRows(ModuleOp module, const CompileOptions &options) {
  if (options.config.microRows == 0)
    return Status::success();
  for (auto program : module.getOps<graph::ProgramOp>())
    for (BlockArgument input : program.getBlock().getArguments()) {
      auto type = cast<RankedTensorType>(input.getType());
      if (type.getRank() > 0 && type.getDimSize(0) != options.config.microRows)
        return makeError(Code::usage, 129,
                         "a micro-step has " + std::to_string(options.config.microRows) +
                             " samples (train_micro_batch_size_per_gpu), but the graph's inputs begin with " +
                             std::to_string(type.getDimSize(0)),
                         options.config.path, "--dim says it where the batch is open; else export the model again");
    }
  return Status::success();
}

/// An open batch is that of the configuration, as if --dim had said it.
static Status bindBatch(CompileOptions &options) {
  if (options.config.microRows == 0)
    return Status::success();
  auto batch = importer::openBatch(options.model, options.import);
  if (batch && *batch) {
    options.import.dims.emplace(**batch, options.config.microRows);
    options.given["dim"].push_back(**batch + "=" + std::to_string(options.config.microRows));
  }
  return batch.status();
}

static ModelSize measure(ModuleOp module) {
  ModelSize size;
  module.walk([&](Operation *) { ++size.operations; });
  for (auto parameter : module.getOps<graph::ParameterOp>())
    size.parameters += cast<RankedTensorType>(parameter.getType()).getNumElements();
  return size;
}

static void recordModel(ModuleOp module, const CompileOptions &options) {
  graph::Model model = graph::modelOf(module);
  model.name = llvm::sys::path::stem(options.model).str();
  graph::setModel(module, model);
  CompileOptions again = options;
  again.model = model.path;
  module->setAttr(plan::kCommand, StringAttr::get(module.getContext(), commandLine(std::move(again))));
}

static Status recordMachine(ModuleOp module, const ScheduleOptions &schedule) {
  graph::setTarget(module, schedule.target);
  if (!schedule.machine.isGiven())
    return Status::success();
  Result<MachineModel> machine = ratesOf(schedule.machine);
  if (machine)
    setMachine(module, *machine);
  return machine.status();
}

Result<ImportedModel> zc::importModel(MLIRContext &context, const CompileOptions &given, Strategy &strategy) {
  CompileOptions options = given;
  ZC_RETURN_IF_ERROR(bindBatch(options));
  Result<OwningOpRef<ModuleOp>> module = importer::importOnnx(context, options.model, options.import);
  if (!module)
    return module.error();
  ZC_RETURN_IF_ERROR(checkRows(**module, options));
  ImportedModel imported{std::move(*module), {}};
  imported.size = measure(*imported.module);
  strategy.shard.chunk = usualChunk(strategy.shard, imported.size);
  adoptOptimizer(*imported.module, options, strategy.grad);
  recordModel(*imported.module, options);
  ZC_RETURN_IF_ERROR(recordMachine(*imported.module, strategy.schedule));
  return imported;
}

Result<OwningOpRef<ModuleOp>> zc::importEvaluation(MLIRContext &context, const CompileOptions &training) {
  if (!training.withEval)
    return OwningOpRef<ModuleOp>();
  const CompileOptions options = evaluationOptions(training);
  const DiagnosticCollector emitted(context, options.model);
  Strategy strategy = options.strategy;
  Result<ImportedModel> imported = importModel(context, options, strategy);
  if (!imported)
    return imported.error();
  ZC_RETURN_IF_ERROR(keepLoss(*imported->module, options.model));
  for (const Stage &stage : kStages)
    if (stage.phase == Phase::grad)
      ZC_RETURN_IF_ERROR(runStage(stage, *imported->module, {options, strategy, emitted, {}}));
  return std::move(imported->module);
}
