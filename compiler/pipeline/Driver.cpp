//===- Driver.cpp - from an ONNX file to a plan -------------------------------------------===//

#include "compiler/pipeline/Driver.h"
#include "base/Suggest.h"
#include "compiler/emit/Report.h"
#include "compiler/grad/Passes.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Files.h"
#include "compiler/pipeline/Imported.h"
#include "compiler/pipeline/MicroOrder.h"
#include "compiler/pipeline/OwnUpdate.h"
#include "compiler/pipeline/Register.h"
#include "compiler/pipeline/Stages.h"
#include "dialects/graph/NodeNames.h"
#include "dialects/plan/PlanProto.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace zc;

namespace {

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

/// A model on its way to a plan. What it does is in the rooms beside: Imported.h, Fit.h, Stages.h, Files.h.
class Compilation {
public:
  /// `completed` options.
  Compilation(MLIRContext &context, const CompileOptions &completed)
      : options(completed), strategy(completed.strategy), context(context), emitted(context, options.model) {}

  Result<CompileResult> run() {
    ZC_RETURN_IF_ERROR(import());
    Result<OwningOpRef<ModuleOp>> evaluated = importEvaluation(context, options);
    ZC_RETURN_IF_ERROR(evaluated.status());
    evaluation = std::move(*evaluated);
    ZC_RETURN_IF_ERROR(checkFiles(*model.module, options));
    ZC_RETURN_IF_ERROR(tuneToBudgets());
    result.parameterTable = importer::listParameters(*model.module);
    for (const Stage &stage : kStages) {
      ZC_RETURN_IF_ERROR(run(stage));
      ZC_RETURN_IF_ERROR(dump(*model.module, stage, options));
      if (stage.phase == options.stopAfter)
        return stopped();
    }
    ZC_RETURN_IF_ERROR(emit());
    return finish();
  }

  Result<CompileResult> parameters() {
    ZC_RETURN_IF_ERROR(import());
    result.parameterTable = importer::listParameters(*model.module);
    result.parameterJson = importer::parametersAsJson(*model.module);
    result.state = measureState(*model.module, strategy.grad);
    return finish();
  }

  Result<CompileResult> sharding() {
    ZC_RETURN_IF_ERROR(import());
    FailureOr<std::string> table = explainSharding(*model.module, gradStageOf(strategy));
    if (failed(table))
      return emitted.error(Code::unsupported, 307);
    result.shardingTable = *table;
    return finish();
  }

private:
  CompileResult finish() {
    result.warnings = emitted.warnings;
    return std::move(result);
  }

  CompileResult stopped() {
    graph::spellLocations(*model.module);
    llvm::raw_string_ostream(result.ir) << *model.module;
    return finish();
  }

  Status import() {
    Result<ImportedModel> imported = importModel(context, options, strategy);
    ZC_RETURN_IF_ERROR(imported.status());
    model = std::move(*imported);
    result.operations = model.size.operations;
    return Status::success();
  }

  /// Of what was imported.
  Trial trial() {
    return [this](const Strategy &tried) { return planMemory(*untouched, evaluation.get(), options, tried); };
  }

  Status tuneToBudgets() {
    const bool hasTrials = !(strategy.schedule.budgets == Budgets()) || options.findSmallest;
    if (hasTrials)
      untouched = model.module->clone();
    Result<Tuned> tuned = hasTrials ? tune(strategy, model.size, trial()) : tune(strategy, {}, {});
    if (tuned)
      strategy = std::move(tuned->strategy);
    return tuned.status();
  }

  /// Where no plan fits, it says which flags would.
  Status run(const Stage &stage) {
    Status status = runStage(stage, *model.module, {options, strategy, emitted, evaluation.get(), /*isTrial=*/false});
    if (!status.ok() && status.error().code == Code::budget && options.proposesFit)
      status.error().help = cheapestFit(strategy, model.size, trial());
    return status;
  }

  Status emit() {
    FailureOr<planpb::Plan> plan = plan::toProto(*model.module);
    if (failed(plan))
      return emitted.error(Code::internal, 308);
    ZC_RETURN_IF_ERROR(writeFiles(*plan, options));
    if (options.output == "-") {
      Result<std::string> bytes = packPlan(*plan);
      ZC_RETURN_IF_ERROR(bytes.status());
      result.plan = std::move(*bytes);
    }
    result.predictedSeconds = plan->report().predicted_step_seconds();
    result.reportJson = reportAsJson(*plan);
    result.reportTable = reportAsTable(*plan);
    constexpr size_t kLarge = 4000; // three more plans of a larger model take longer than people wait for a report
    if (options.findSmallest && model.size.operations < kLarge)
      result.reportTable += smallestBudget(strategy, model.size, trial());
    return Status::success();
  }

  const CompileOptions options;
  Strategy strategy; ///< as given, completed by what the model brings along and tuned to the budgets
  MLIRContext &context;
  DiagnosticCollector emitted;
  ImportedModel model;
  OwningOpRef<ModuleOp> untouched;  ///< the module as it was imported, where there are budgets: for trials
  OwningOpRef<ModuleOp> evaluation; ///< forward-only, after grad; null: none is asked for
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
  if (completed.strategy.shard.model < 2)
    return optionError("it explains --tensor-parallel T, of 2 ranks or more", "explain-sharding");
  Context context;
  return Compilation(context.context, completed).sharding();
}

/// By their names without dashes. Passes are known before, since --mlir-print-ir-before takes their names.
static llvm::StringMap<llvm::cl::Option *> &mlirFlags() {
  static const bool registered = [] {
    registerAllPasses();
    registerAsmPrinterCLOptions();
    registerPassManagerCLOptions();
    registerDefaultTimingManagerCLOptions();
    return true;
  }();
  (void)registered;
  return llvm::cl::getRegisteredOptions();
}

static std::string nameOfFlag(const std::string &flag) { return flag.substr(2, flag.find('=') - 2); }

bool zc::mlirFlagTakesValue(const std::string &flag) {
  auto found = mlirFlags().find(nameOfFlag(flag));
  return found != mlirFlags().end() && found->second->getValueExpectedFlag() == llvm::cl::ValueRequired;
}

static Status checkMlirFlag(const std::string &flag) {
  if (mlirFlags().count(nameOfFlag(flag)))
    return Status::success();
  std::vector<std::string> known;
  for (const auto &entry : mlirFlags())
    if (entry.first().starts_with("mlir-"))
      known.push_back("--" + entry.first().str());
  llvm::sort(known);
  const std::string name = "--" + nameOfFlag(flag), near = nearest(name, known);
  return makeError(Code::usage, 114, "unknown flag \"" + name + "\" of MLIR", "",
                   near.empty() ? "there are " + llvm::join(known, ", ") : "did you mean \"" + near + "\"?");
}

/// What `run` writes to standard error, in one line without the program's name. LLVM tells there, whatever stream it is
/// given, of a value that is none.
static std::string stderrOf(llvm::function_ref<void()> run) {
  const int kept = ::dup(2), caught = ::memfd_create("stderr", MFD_CLOEXEC);
  if (kept < 0 || caught < 0) {
    run();
    return "its own message stands above";
  }
  ::dup2(caught, 2);
  run();
  ::dup2(kept, 2);
  std::string text(4096, '\0');
  const ssize_t size = ::pread(caught, text.data(), text.size(), 0);
  ::close(kept);
  ::close(caught);
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  llvm::StringRef line = llvm::StringRef(text).split('\n').first;
  line.consume_front("zero-compile: ");
  return line.str();
}

Status zc::setMlirFlags(const std::vector<std::string> &flags) {
  mlirFlags(); // the pass manager asks for their values in any case
  if (flags.empty())
    return Status::success();
  std::vector<const char *> arguments{"zero-compile"};
  for (const std::string &flag : flags) {
    ZC_RETURN_IF_ERROR(checkMlirFlag(flag));
    arguments.push_back(flag.c_str());
  }
  bool isRead = false;
  const std::string said = stderrOf([&] {
    isRead =
        llvm::cl::ParseCommandLineOptions(static_cast<int>(arguments.size()), arguments.data(), "", &llvm::nulls());
  });
  return isRead ? Status::success() : makeError(Code::usage, 113, "a flag of MLIR is not taken: " + said);
}
