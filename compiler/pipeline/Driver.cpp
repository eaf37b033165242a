//===- Driver.cpp - from an ONNX file to a plan -------------------------------------------===//

#include "compiler/pipeline/Driver.h"
#include "compiler/emit/ExternalFiles.h"
#include "compiler/emit/MemoryPage.h"
#include "compiler/emit/Report.h"
#include "compiler/emit/Timeline.h"
#include "compiler/grad/Passes.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/Fit.h"
#include "compiler/pipeline/MicroOrder.h"
#include "compiler/pipeline/Register.h"
#include "compiler/schedule/MachineModel.h"
#include "compiler/schedule/Passes.h"
#include "compiler/shard/Passes.h"
#include "dialects/plan/PlanProto.h"
#include "runtime/base/File.h"
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
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

/// One compilation.
class Compilation {
public:
  Compilation(MLIRContext &context, const CompileOptions &given)
      : options(given), context(context), collector(context, options.model) {}

  Result<CompileResult> run() {
    ZC_RETURN_IF_ERROR(import());
    ZC_RETURN_IF_ERROR(tuneToBudgets());
    result.parameterTable = importer::listParameters(*module);
    for (const PhaseInfo &phase : kPhases) {
      ZC_RETURN_IF_ERROR(runPhase(phase));
      ZC_RETURN_IF_ERROR(dump(phase));
      if (phase.phase == options.stopAfter) {
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
    return finish();
  }

private:
  CompileResult finish() {
    result.warnings = collector.warnings;
    return std::move(result);
  }

  //===-- trials ----------------------------------------------------------------===//

  /// A trial of `given` on a copy of what was imported.
  Compilation(MLIRContext &context, const CompileOptions &given, const Tuning &tuning, ModuleOp imported)
      : options(given), tuning(tuning), isTrial(true), context(context), collector(context, options.model),
        module(imported.clone()) {}

  /// Plans the memory and says what it takes, over budget or not.
  Result<Budgets> needs() {
    for (const PhaseInfo &phase : kPhases) {
      if (phase.phase == Phase::plan)
        break;
      if (Status status = runPhase(phase); !status.ok() && status.error().code != Code::budget)
        return status.error();
    }
    Budgets needs;
    for (auto arena : module->getOps<plan::ArenaOp>()) {
      auto bytes = static_cast<uint64_t>(arena.getBytes());
      (arena.getTier() == plan::Tier::device ? needs.device
       : arena.getTier() == plan::Tier::host ? needs.host
                                             : needs.nvme) = bytes;
    }
    return needs;
  }

  Trial trial() {
    return [this](const CompileOptions &changed, const Tuning &sizes) {
      return Compilation(context, changed, sizes, *imported).needs();
    };
  }

  Status tuneToBudgets() {
    if (options.budgets == Budgets() && !options.findSmallest)
      return tuned(tune(options, {}, {}));
    imported = module->clone();
    imported->walk([&](Operation *) { ++size.operations; });
    for (auto parameter : imported->getOps<graph::ParameterOp>())
      size.parameters += cast<RankedTensorType>(parameter.getType()).getNumElements();
    return tuned(tune(options, size, trial()));
  }
  Status tuned(const Result<Tuned> &found) {
    if (found)
      tuning = found->tuning;
    return found.status();
  }

  Status import() {
    importer::ImportOptions import;
    import.dims = options.dims;
    import.loss = options.loss;
    import.lossOp = options.lossOp;
    import.forwardOnly = options.forwardOnly;
    import.outputs = options.outputs;
    if (!options.ortCheckpoint.empty())
      import.ortCheckpoint = options.ortCheckpoint;
    if (!options.ortOptimizer.empty())
      import.ortOptimizer = options.ortOptimizer;
    for (const std::string &limit : options.limits)
      ZC_RETURN_IF_ERROR(importer::setLimit(import.limits, limit));
    import.trainable = options.trainable;
    import.frozen = options.frozen;
    import.ties = options.ties;
    import.untied = options.untied;
    import.paddingIndices = options.paddingIndices;
    import.dropout = options.dropout == "off"     ? importer::DropoutPolicy::off
                     : options.dropout == "force" ? importer::DropoutPolicy::force
                                                  : importer::DropoutPolicy::asExported;
    import.batchNorm = options.batchNorm == "train"  ? importer::BatchNormPolicy::train
                       : options.batchNorm == "eval" ? importer::BatchNormPolicy::eval
                                                     : importer::BatchNormPolicy::asExported;
    import.batchNormVariance = options.batchNormVariance == "onnx" ? importer::BatchNormVariance::population
                                                                   : importer::BatchNormVariance::sample;
    Result<OwningOpRef<ModuleOp>> imported = importer::importOnnx(context, options.model, import);
    if (!imported)
      return imported.error();
    module = std::move(*imported);
    adoptOptimizer();
    OpBuilder builder(&context);
    (*module)->setAttr("zc.model_name", builder.getStringAttr(llvm::sys::path::stem(options.model)));
    (*module)->setAttr("zc.precision", builder.getStringAttr(options.precision));
    if (!options.machine.empty()) {
      Result<MachineModel> machine = readMachine(options.machine);
      if (!machine)
        return machine.error();
      NamedAttrList rates;
      for (const MachineModel::Field &field : MachineModel::kFields)
        rates.set(field.name, builder.getF64FloatAttr((*machine).*field.rate));
      (*module)->setAttr("zc.machine", rates.getDictionary(&context));
    }
    (*module)->setAttr("zc.seed", builder.getI64IntegerAttr(static_cast<int64_t>(options.seed)));
    return Status::success();
  }

  /// A model with a rule of its own is trained by it, unless --optimizer says otherwise.
  void adoptOptimizer() {
    auto own = (*module)->getAttrOfType<DictionaryAttr>("zc.own_optimizer");
    (*module)->removeAttr("zc.own_optimizer");
    if (!own || options.optimizerGiven)
      return;
    auto number = [&](StringRef name) { return own.getAs<FloatAttr>(name).getValueAsDouble(); };
    options.rule = own.getAs<StringAttr>("rule").str();
    options.beta1 = number("beta1");
    options.beta2 = number("beta2");
    options.eps = number("eps");
    options.momentum = number("momentum");
    options.weightDecay = number("weight_decay");
    if (number("max_norm") > 0)
      options.clipGradNorm = number("max_norm");
    if (own.get("lr") && !options.lrGiven)
      options.lr = number("lr");
    for (StringRef flag : {"eps_uncorrected", "sums_gradients"})
      if (own.get(flag))
        (*module)->setAttr(("zc." + flag).str(), UnitAttr::get(&context));
  }

  Status runPhase(const PhaseInfo &phase) {
    if (phase.phase == Phase::import)
      return Status::success();
    PassManager manager(&context);
    manager.enableVerifier(!isTrial); // what is kept is compiled once more
    if (!isTrial) {
      if (failed(applyPassManagerCLOptions(manager)))
        return makeError(Code::usage, 401, "MLIR's pass manager flags contradict each other");
      applyDefaultTimingPassManagerCLOptions(manager);
    }
    build(manager, phase.phase);
    if (succeeded(manager.run(*module)))
      return phase.phase == Phase::grad ? recordOptimizer() : Status::success();
    if (auto tier = (*module)->getAttrOfType<StringAttr>("zc.short_tier"))
      return shortfall(tier.str());
    return collector.error(phase.failure, phase.number);
  }

  void build(PassManager &manager, Phase phase) {
    if (phase == Phase::grad)
      buildGradPipeline(manager, gradOptions());
    if (phase == Phase::shard) {
      ShardOptions shard;
      shard.worldSize = options.worldSize;
      shard.ranksPerNode = options.ranksPerNode;
      shard.bucketSize = options.bucketSize;
      shard.tileLinear = options.tileLinear;
      shard.stage = options.stage;
      shard.accumulation = options.accumulation;
      shard.quantizeWeights = options.quantizeWeights;
      shard.quantizeGradients = options.quantizeGradients;
      shard.quantizeBlock = options.quantizeBlock;
      shard.errorFeedback = options.errorFeedback;
      shard.hierarchical = options.hierarchical;
      shard.hierarchicalCollectives = options.hierarchicalCollectives;
      if (options.stage < 3 && (options.quantizeWeights != "none" || options.hierarchical))
        emitWarning(module->getLoc(),
                    "below stage 3 parameters are not gathered: --quantize-weights and --hierarchical change nothing");
      if (options.delayAfter >= 0 && options.offloadParam == "nvme")
        emitWarning(module->getLoc(),
                    "reading parameters from the file waits for what the update before reads: --delay-update hides "
                    "little with --offload-param nvme");
      if (options.microOrder == "vertical" && options.accumulation < 2)
        module->emitWarning("with one micro-step --micro-order changes nothing");
      shard.offloadOptimizer = options.offloadOptimizer;
      shard.offloadParam = options.offloadParam;
      shard.offloadActivation = options.offloadActivation;
      shard.offloadRatio = options.offloadRatio;
      shard.delayAfter = options.delayAfter;
      shard.vertical = options.microOrder == "vertical";
      shard.verticalMost = options.verticalMost;
      shard.resident = tuning.resident;
      shard.residentOnHost = tuning.residentOnHost;
      shard.chunk = tuning.chunk;
      buildShardPipeline(manager, shard);
    }
    if (phase == Phase::schedule) {
      ScheduleOptions schedule;
      schedule.prefetch = options.prefetch;
      schedule.overlap = tuning.overlap;
      schedule.deviceMemory = static_cast<int64_t>(options.budgets.device);
      schedule.hostMemory = static_cast<int64_t>(options.budgets.host);
      schedule.nvmeMemory = static_cast<int64_t>(options.budgets.nvme);
      buildSchedulePipeline(manager, schedule);
    }
    if (phase == Phase::plan)
      buildPlanPipeline(manager);
  }

  GradOptions gradOptions() {
    GradOptions grad;
    grad.forwardOnly = options.forwardOnly;
    grad.precision.to = options.precision == "bf16"   ? Precision::bf16
                        : options.precision == "fp16" ? Precision::fp16
                                                      : Precision::fp32;
    grad.differentiate.scaleLoss = options.precision == "fp16";
    grad.lossMean.mode = options.lossMean == "global" ? LossMean::global : LossMean::rank;
    grad.checkpoint.policy = options.checkpointActivations == "block"       ? CheckpointPolicy::block
                             : options.checkpointActivations == "selective" ? CheckpointPolicy::selective
                                                                            : CheckpointPolicy::none;
    grad.checkpoint.save = tuning.save;
    grad.optimizer.rule = graph::symbolizeOptimizer(options.rule).value_or(graph::Optimizer::adamw);
    grad.optimizer.lr = options.lr;
    grad.optimizer.beta1 = options.beta1;
    grad.optimizer.beta2 = options.beta2;
    grad.optimizer.eps = options.eps;
    grad.optimizer.momentum = options.momentum;
    grad.optimizer.weightDecay = options.weightDecay;
    grad.optimizer.maxNorm = options.clipGradNorm;
    grad.optimizer.noDecay = options.noDecay;
    grad.optimizer.lossScale = options.lossScale;
    grad.optimizer.initialLossScale = options.initialLossScale;
    grad.optimizer.minLossScale = options.minLossScale;
    grad.optimizer.lossScaleWindow = options.lossScaleWindow;
    grad.optimizer.lossScaleHysteresis = options.lossScaleHysteresis;
    grad.optimizer.consecutiveHysteresis = options.consecutiveHysteresis;
    return grad;
  }

  /// The plan's summary of the rule; the decay of parameters that decay.
  Status recordOptimizer() {
    if (options.forwardOnly)
      return Status::success();
    double decay = 0;
    bool updates = false;
    module->walk([&](graph::UpdateOp update) {
      decay = std::max(decay, update.getWeightDecay().convertToDouble());
      updates = true;
    });
    if (!updates)
      return makeError(Code::usage, 411, "no parameter is trained: the loss depends on none", options.model,
                       "--list-parameters tells why; --trainable GLOB and --loss choose otherwise");
    OpBuilder builder(&context);
    NamedAttrList attrs;
    attrs.set("rule", builder.getStringAttr(options.rule));
    for (auto [name, value] :
         std::initializer_list<std::pair<const char *, double>>{{"lr", options.lr},
                                                                {"beta1", options.beta1},
                                                                {"beta2", options.beta2},
                                                                {"eps", options.eps},
                                                                {"momentum", options.momentum},
                                                                {"weight_decay", decay},
                                                                {"max_norm", options.clipGradNorm}})
      attrs.set(name, builder.getF64FloatAttr(value));
    (*module)->setAttr("zc.optimizer", attrs.getDictionary(&context));
    return Status::success();
  }

  Error shortfall(StringRef tier) {
    Error error = collector.error(Code::budget, 312);
    if (!isTrial && options.proposesFit)
      error.help = cheapestFit(options, size, trial());
    return error;
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
    (*module)->print(out, flags);
    out << '\n';
    std::string path =
        options.dumpPhasesTo + "/" + std::to_string(static_cast<int>(phase.phase) + 1) + "-" + phase.name + ".mlir";
    return writeFileAtomically(path, text);
  }

  Status emit() {
    FailureOr<planpb::Plan> plan = plan::toProto(*module);
    if (failed(plan))
      return collector.error(Code::internal, 441);
    if (!options.output.empty())
      ZC_RETURN_IF_ERROR(recordExternalFiles(*plan));
    fillReport(*plan, options.budgets);
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
      result.reportTable += smallestBudget(options, size, trial());
    if (!options.memoryHtml.empty())
      ZC_RETURN_IF_ERROR(writeFileAtomically(options.memoryHtml, memoryPage(*plan)));
    if (!options.emitTrace.empty())
      ZC_RETURN_IF_ERROR(writeFileAtomically(options.emitTrace, plannedTrace(*plan, playTimeline(*plan))));
    return options.output.empty() ? Status::success() : writePlan(options.output, *plan);
  }

  CompileOptions options; ///< as given, completed by what the model brings along
  Tuning tuning;
  bool isTrial = false;
  MLIRContext &context;
  DiagnosticCollector collector;
  OwningOpRef<ModuleOp> module;
  OwningOpRef<ModuleOp> imported; ///< where there are budgets, for trials
  ModelSize size;                 ///< of it
  CompileResult result;
};

} // namespace

Result<CompileResult> zc::compile(const CompileOptions &options) {
  CompileOptions chosen = options;
  if (options.microOrder == "auto")
    chosen.microOrder = fasterMicroOrder(options, [](const CompileOptions &tried) -> Result<double> {
      Result<CompileResult> compiled = compile(tried);
      return compiled ? Result<double>(compiled->predictedSeconds) : Result<double>(compiled.error());
    });
  Context context;
  return Compilation(context.context, chosen).run();
}

Result<CompileResult> zc::listParameters(const CompileOptions &options) {
  Context context;
  return Compilation(context.context, options).parameters();
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
