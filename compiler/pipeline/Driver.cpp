//===- Driver.cpp - from an ONNX file to a plan -------------------------------------------===//

#include "compiler/pipeline/Driver.h"
#include "compiler/emit/ExternalFiles.h"
#include "compiler/emit/MemoryPage.h"
#include "compiler/emit/PlannedTrace.h"
#include "compiler/emit/Report.h"
#include "compiler/grad/Passes.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/Evaluation.h"
#include "compiler/pipeline/Fit.h"
#include "compiler/pipeline/MicroOrder.h"
#include "compiler/pipeline/Register.h"
#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"
#include "compiler/shard/Passes.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/graph/NodeNames.h"
#include "dialects/graph/VerifyModule.h"
#include "dialects/plan/PlanProto.h"
#include "runtime/base/File.h"
#include "runtime/base/Outputs.h"
#include "runtime/io/Folder.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Verify.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace zc;

namespace {

struct PhaseInfo {
  Phase phase;
  const char *name;
  Code failure; ///< what a failing pass of the phase means when nothing says better
  int number;
};
constexpr PhaseInfo kPhases[] = {{Phase::import, "import", Code::badInput, 400},
                                 {Phase::grad, "grad", Code::unsupported, 410},
                                 {Phase::shard, "shard", Code::usage, 420},
                                 {Phase::schedule, "schedule", Code::internal, 430},
                                 {Phase::plan, "plan", Code::internal, 440}};

/// A context with the dialects of all levels.
struct Context {
  Context() {
    // The constructor's flag leaves locks and a cache per thread in the tables of attributes, types and locations.
    context.disableMultithreading();
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false); // who reads messages has a model, not a module
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

/// One compilation.
class Compilation {
public:
  Compilation(MLIRContext &context, const CompileOptions &given)
      : options(given), strategy(given.strategy), context(context), collector(context, options.model) {}

  Result<CompileResult> run() {
    ZC_RETURN_IF_ERROR(import());
    ZC_RETURN_IF_ERROR(importEvaluation());
    ZC_RETURN_IF_ERROR(checkFiles());
    ZC_RETURN_IF_ERROR(tuneToBudgets());
    result.parameterTable = importer::listParameters(*module);
    for (const PhaseInfo &phase : kPhases) {
      ZC_RETURN_IF_ERROR(runPhase(phase));
      ZC_RETURN_IF_ERROR(dump(phase));
      if (phase.phase == options.stopAfter) {
        graph::spellLocations(*module);
        llvm::raw_string_ostream(result.ir) << *module;
        return finish();
      }
    }
    ZC_RETURN_IF_ERROR(emit());
    return finish();
  }

  Result<CompileResult> parameters() {
    ZC_RETURN_IF_ERROR(import());
    result.parameterTable = importer::listParameters(*module);
    measureState();
    return finish();
  }

  Result<CompileResult> sharding() {
    ZC_RETURN_IF_ERROR(import());
    FailureOr<std::string> table = explainSharding(*module, gradStageOf(strategy));
    if (failed(table))
      return collector.error(Code::unsupported, 413);
    result.shardingTable = *table;
    return finish();
  }

private:
  CompileResult finish() {
    result.warnings = collector.warnings;
    return std::move(result);
  }

  void measureState() {
    const GradOptions &grad = strategy.grad;
    const bool isHalf = grad.precision != Precision::fp32; // updates then keep an fp32 copy
    const int64_t moments = momentsOf(grad.rule);
    for (auto parameter : module->getOps<graph::ParameterOp>())
      if (parameter.getRole() == graph::Role::trainable) {
        const int64_t elements = cast<RankedTensorType>(parameter.getType()).getNumElements();
        result.state.parameters += elements * (isHalf ? 2 : 4);
        result.state.optimizer += elements * 4 * (moments + isHalf);
      }
  }

  //===-- trials ----------------------------------------------------------------===//

  /// A trial of `strategy` on a copy of what was imported.
  Compilation(MLIRContext &context, const CompileOptions &given, Strategy strategy, ModuleOp imported,
              ModuleOp evaluation)
      : options(given), strategy(std::move(strategy)), isTrial(true), context(context),
        collector(context, options.model), module(imported.clone()), evaluation(evaluation) {}

  /// Plans the memory and says what it takes, over budget or not.
  Result<Budgets> needs() {
    for (const PhaseInfo &phase : kPhases) {
      if (phase.phase == Phase::plan)
        break;
      if (Status status = runPhase(phase); !status.ok() && status.error().code != Code::budget)
        return status.error();
    }
    Budgets needs;
    for (auto arena : module->getOps<plan::ArenaOp>())
      (arena.getTier() == plan::Tier::device ? needs.device
       : arena.getTier() == plan::Tier::host ? needs.host
                                             : needs.nvme) = static_cast<int64_t>(arena.getBytes());
    return needs;
  }

  Trial trial() {
    return
        [this](const Strategy &tried) { return Compilation(context, options, tried, *imported, evaluation).needs(); };
  }

  Status tuneToBudgets() {
    if (strategy.schedule.budgets == Budgets() && !options.findSmallest)
      return tuned(tune(strategy, {}, {}));
    imported = module->clone();
    return tuned(tune(strategy, size, trial()));
  }
  Status tuned(Result<Tuned> found) {
    if (found)
      strategy = std::move(found->strategy);
    return found.status();
  }

  Status import() {
    Result<OwningOpRef<ModuleOp>> imported = importer::importOnnx(context, options.model, options.import);
    if (!imported)
      return imported.error();
    module = std::move(*imported);
    ZC_RETURN_IF_ERROR(checkRows());
    module->walk([&](Operation *) { ++result.operations; });
    size.operations = result.operations;
    for (auto parameter : module->getOps<graph::ParameterOp>())
      size.parameters += cast<RankedTensorType>(parameter.getType()).getNumElements();
    strategy.shard.chunk = usualChunk(strategy.shard, size);
    adoptOptimizer();
    graph::Model model = graph::modelOf(*module);
    model.name = llvm::sys::path::stem(options.model).str();
    graph::setModel(*module, model);
    CompileOptions again = options;
    again.model = model.path;
    (*module)->setAttr(plan::kCommand, StringAttr::get(&context, commandLine(std::move(again))));
    graph::setTarget(*module, strategy.schedule.target);
    if (const std::string &name = strategy.schedule.machine; !name.empty()) {
      const MachinePreset *known = findMachine(name);
      Result<MachineModel> machine = known ? known->model : readMachine(name);
      if (!machine)
        return machine.error();
      setMachine(*module, *machine);
    }
    return Status::success();
  }

  /// Has the graph the rows that the configuration speaks of? Its inputs begin with them.
  Status checkRows() {
    if (options.configRows == 0)
      return Status::success();
    for (auto program : module->getOps<graph::ProgramOp>())
      for (BlockArgument input : program.getBlock().getArguments()) {
        auto type = cast<RankedTensorType>(input.getType());
        if (type.getRank() > 0 && type.getDimSize(0) != options.configRows)
          return makeError(Code::usage, 129,
                           "a micro-step has " + std::to_string(options.configRows) +
                               " samples (train_micro_batch_size_per_gpu), but the graph's inputs begin with " +
                               std::to_string(type.getDimSize(0)),
                           options.config, "--dim says it where the batch is open; else export the model again");
      }
    return Status::success();
  }

  /// The model once more, as a forward-only plan imports it (another dropout, other norms), through its grad stage.
  /// What is to be said of the model has been said.
  Status importEvaluation() {
    if (!options.withEval)
      return Status::success();
    Compilation forward(context, evaluationOptions(options));
    ZC_RETURN_IF_ERROR(forward.import());
    ZC_RETURN_IF_ERROR(keepLoss(*forward.module, options.model));
    for (const PhaseInfo &phase : kPhases)
      if (phase.phase == Phase::grad)
        ZC_RETURN_IF_ERROR(forward.runPhase(phase));
    ownEvaluation = std::move(forward.module);
    evaluation = *ownEvaluation;
    return Status::success();
  }

  /// A model with a rule of its own is trained by it, unless --optimizer says otherwise.
  void adoptOptimizer() {
    graph::Training training = graph::trainingOf(*module);
    training.precision = strategy.grad.precision;
    training.seed = static_cast<int64_t>(options.seed);
    if (!training.optimizer || options.isGiven("optimizer"))
      training.epsUncorrected = training.sumsGradients = false;
    else
      adopt(*training.optimizer);
    training.optimizer.reset(); // recorded as it is used, after grad
    graph::setTraining(*module, training);
    warnOfOtherRules();
  }

  /// Who knows torch's SGD gives it a momentum.
  void warnOfOtherRules() {
    const UpdateRule rule = strategy.grad.rule;
    const bool isAdam = rule == UpdateRule::adamw || rule == UpdateRule::adam;
    auto warn = [&](const char *option, bool isOfRule, const char *others) {
      if (options.isGiven(option) && !isOfRule)
        module->emitWarning("--") << option << " changes nothing with --optimizer " << nameOf(rule) << "; it is for "
                                  << others;
    };
    warn("momentum", rule == UpdateRule::momentum, "--optimizer momentum");
    warn("betas", isAdam, "adamw and adam");
    warn("eps", isAdam, "adamw and adam");
  }

  void adopt(const graph::UpdateSettings &own) {
    GradOptions &grad = strategy.grad;
    grad.rule = own.rule;
    grad.beta1 = own.beta1;
    grad.beta2 = own.beta2;
    grad.eps = own.eps;
    grad.momentum = own.momentum;
    grad.weightDecay = own.weightDecay;
    if (own.maxNorm > 0)
      grad.clipGradNorm = own.maxNorm;
    if (own.lr && !options.isGiven("lr"))
      grad.lr = *own.lr;
  }

  Status runPhase(const PhaseInfo &phase) {
    if (phase.phase == Phase::import)
      return Status::success();
    PassManager manager(&context);
    manager.enableVerifier(false); // a stage is verified at its end; of trials, what is kept is compiled once more
    if (!isTrial) {
      if (failed(applyPassManagerCLOptions(manager)))
        return makeError(Code::usage, 401, "MLIR's pass manager flags contradict each other");
      applyDefaultTimingPassManagerCLOptions(manager);
    }
    build(manager, phase.phase);
    if (succeeded(manager.run(*module)) && (isTrial || succeeded(graph::verifyModule(*module))))
      return phase.phase == Phase::grad ? finishGrad() : Status::success();
    if ((*module)->hasAttrOfType<plan::TierAttr>(placement::kShortTier))
      return shortfall();
    return collector.error(phase.failure, phase.number);
  }

  void build(PassManager &manager, Phase phase) {
    if (phase == Phase::grad)
      buildGradPipeline(manager, gradStageOf(strategy));
    if (phase == Phase::shard) {
      warnOfNoEffect(strategy.shard);
      buildShardPipeline(manager, strategy.shard);
    }
    if (phase == Phase::schedule)
      buildSchedulePipeline(manager, strategy.schedule);
    if (phase == Phase::plan)
      buildPlanPipeline(manager);
  }

  void warnOfNoEffect(const ShardOptions &shard) {
    if (shard.stage < 3 && (shard.quantizeWeights != WeightFormat::none || shard.hierarchical))
      module->emitWarning(
          "below stage 3 parameters are not gathered: --quantize-weights and --hierarchical change nothing");
    if (shard.delayUpdate && shard.offloadParam == Offload::nvme)
      module->emitWarning(
          "reading parameters from the file waits for what the update before reads: --delay-update hides "
          "little with --offload-param nvme");
    if (shard.isVertical() && shard.accumulation < 2)
      module->emitWarning("with one micro-step --micro-order changes nothing");
  }

  Status finishGrad() {
    ZC_RETURN_IF_ERROR(recordOptimizer());
    return evaluation ? addEvaluation(*module, evaluation, options.model) : Status::success();
  }

  /// The plan's summary of the rule; parameters may have a decay of their own.
  Status recordOptimizer() {
    const GradOptions &grad = strategy.grad;
    if (grad.forwardOnly)
      return Status::success();
    if (!module->walk([](graph::UpdateOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return makeError(Code::usage, 411, "no parameter is trained: the loss depends on none", options.model,
                       "--list-parameters tells why; --trainable GLOB and --loss choose otherwise");
    graph::Training training = graph::trainingOf(*module);
    graph::UpdateSettings &settings = training.optimizer.emplace();
    settings.rule = grad.rule;
    settings.lr = grad.lr;
    settings.lrSchedule = grad.lrSchedule;
    settings.beta1 = grad.beta1;
    settings.beta2 = grad.beta2;
    settings.eps = grad.eps;
    settings.momentum = grad.momentum;
    settings.weightDecay = weightDecayOf(grad);
    settings.maxNorm = grad.clipGradNorm;
    graph::setTraining(*module, training);
    return Status::success();
  }

  Error shortfall() {
    Error error = collector.error(Code::budget, 312);
    if (!isTrial && options.proposesFit)
      error.help = cheapestFit(strategy, size, trial());
    return error;
  }

  std::string dumpOf(const PhaseInfo &phase) const {
    return options.dumpPhasesTo + "/" + std::to_string(static_cast<int>(phase.phase) + 1) + "-" + phase.name + ".mlir";
  }

  /// No output is an input, such as the model's external data.
  Status checkFiles() {
    std::string folder = io::folderOf(options.model);
    bool isFile = !findMachine(strategy.schedule.machine);
    std::vector<NamedPath> inputs = {{"--config", options.config},
                                     {"--machine", isFile ? strategy.schedule.machine : ""},
                                     {"--ort-checkpoint", folder + "/" + options.import.ortCheckpoint},
                                     {"--ort-optimizer", folder + "/" + options.import.ortOptimizer}};
    for (const std::string &file : importer::filesOf(*module))
      inputs.push_back({"", file});
    for (const ParamGroup &group : options.import.paramGroups)
      inputs.push_back({"--param-groups", group.file});
    std::vector<NamedPath> outputs = {
        {"-o", options.output}, {"--memory-html", options.memoryHtml}, {"--emit-trace", options.emitTrace}};
    for (const PhaseInfo &phase : kPhases)
      if (!options.dumpPhasesTo.empty())
        outputs.push_back({"--dump-phases-to", dumpOf(phase)});
    return checkOutputs(inputs, outputs);
  }

  Status dump(const PhaseInfo &phase) {
    if (options.dumpPhasesTo.empty())
      return Status::success();
    if (std::error_code code = llvm::sys::fs::create_directories(options.dumpPhasesTo))
      return makeError(Code::io, 402, "cannot make the folder: " + code.message(), options.dumpPhasesTo);
    std::string text;
    OpPrintingFlags flags;
    flags.enableDebugInfo(true, /*prettyForm=*/false); // locations are ONNX nodes: worth reading, needed to go on
    llvm::raw_string_ostream out(text);
    graph::spellLocations(*module);
    (*module)->print(out, flags);
    out << '\n';
    return writeFileAtomically(dumpOf(phase), text);
  }

  Status emit() {
    FailureOr<planpb::Plan> plan = plan::toProto(*module);
    if (failed(plan))
      return collector.error(Code::internal, 441);
    if (!options.output.empty())
      ZC_RETURN_IF_ERROR(recordExternalFiles(*plan));
    fillReport(*plan, strategy.schedule.budgets);
    if (Status status = verifyPlan(*plan); !status.ok()) {
      Error error = status.error();
      error.code = Code::internal;
      error.note = "the compiler made a plan that does not verify; please report it with the model";
      return error;
    }
    result.predictedSeconds = plan->report().predicted_step_seconds();
    result.reportJson = reportAsJson(*plan);
    result.reportTable = reportAsTable(*plan);
    constexpr size_t kLarge = 4000; // three more plans of a larger model take longer than people wait for a report
    if (options.findSmallest && size.operations < kLarge)
      result.reportTable += smallestBudget(strategy, size, trial());
    if (!options.memoryHtml.empty())
      ZC_RETURN_IF_ERROR(writeFileAtomically(options.memoryHtml, memoryPage(*plan)));
    if (!options.emitTrace.empty())
      ZC_RETURN_IF_ERROR(writeFileAtomically(options.emitTrace, plannedTrace(*plan, playTimeline(*plan))));
    return options.output.empty() ? Status::success() : writePlan(options.output, *plan);
  }

  CompileOptions options;
  Strategy strategy; ///< as given, completed by what the model brings along and tuned to the budgets
  bool isTrial = false;
  MLIRContext &context;
  DiagnosticCollector collector;
  OwningOpRef<ModuleOp> module;
  OwningOpRef<ModuleOp> imported; ///< where there are budgets, for trials
  OwningOpRef<ModuleOp> ownEvaluation;
  ModuleOp evaluation; ///< forward-only, after grad; null: none is asked for
  ModelSize size;      ///< of it
  CompileResult result;
};

} // namespace

Result<CompileResult> zc::compile(const CompileOptions &options) {
  CompileOptions chosen = options;
  ZC_RETURN_IF_ERROR(complete(chosen));
  if (MicroOrder &order = chosen.strategy.shard.microOrder; order == MicroOrder::automatic)
    order = fasterMicroOrder(chosen, [](const CompileOptions &tried) -> Result<double> {
      Result<CompileResult> compiled = compile(tried);
      return compiled ? Result<double>(compiled->predictedSeconds) : Result<double>(compiled.error());
    });
  Context context;
  return Compilation(context.context, chosen).run();
}

Result<CompileResult> zc::listParameters(const CompileOptions &options) {
  CompileOptions completed = options;
  ZC_RETURN_IF_ERROR(complete(completed));
  Context context;
  return Compilation(context.context, completed).parameters();
}

Result<CompileResult> zc::explainSharding(const CompileOptions &options) {
  CompileOptions completed = options;
  ZC_RETURN_IF_ERROR(complete(completed));
  Context context;
  return Compilation(context.context, completed).sharding();
}

Status zc::setMlirFlags(const std::vector<std::string> &flags) {
  registerAsmPrinterCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  std::vector<const char *> arguments{"zero-compile"};
  for (const std::string &flag : flags)
    arguments.push_back(flag.c_str());
  std::string message;
  llvm::raw_string_ostream errors(message);
  if (!llvm::cl::ParseCommandLineOptions(static_cast<int>(arguments.size()), arguments.data(), "", &errors))
    return makeError(Code::usage, 113, message);
  return Status::success();
}
