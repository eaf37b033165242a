//===- CompileOptions.h - what is asked of a compilation ----------------------------===//
#pragma once

#include "compiler/config/DeepSpeedConfig.h"
#include "compiler/grad/Options.h"
#include "compiler/import/Options.h"
#include "compiler/schedule/Options.h"
#include "compiler/shard/Options.h"

namespace zc {

/// Borders at which compilation can stop and be looked at; `emit` is the plan file.
enum class Phase { import, grad, shard, schedule, plan, emit };

/// All that decides which plan an imported model becomes: what is asked for, and what the compiler chose where nothing
/// is (--auto, budgets). Every search goes over such values.
struct Strategy {
  GradOptions grad;
  ShardOptions shard;
  ScheduleOptions schedule;
};

/// What the grad stage is told.
GradStage gradStageOf(const Strategy &strategy);

/// An axis of `--mesh`: node, local, data (which is node x local) or model.
struct AskedAxis {
  std::string name;
  int64_t size = 1;
};

struct CompileOptions {
  std::string model;    ///< path of the .onnx file
  std::string output;   ///< path of the plan, or of the IR where compilation stops before; empty: none is written;
                        ///< "-": the caller has it, for stdout
  AppliedConfig config; ///< that some of these came from

  importer::ImportOptions import;
  Strategy strategy;
  std::vector<AskedAxis> mesh; ///< outermost first; empty: as world size, ranks per node and model ranks say
  uint64_t seed = 0;
  bool withEval = false; ///< a plan that trains evaluates as well

  /// The options that were given, on the command line or by a configuration: those are not chosen otherwise,
  /// neither by --auto nor by a model that brings its own update rule.
  GivenOptions given;
  bool isGiven(const std::string &name) const { return given.count(name) > 0; }
  /// Where the optimizer is follows later (--auto, --explain-offload), and with that whether its update can be delayed.
  bool offloadIsOpen = false;
  /// The stage follows later (--auto): one that takes what is offloaded.
  bool stageIsOpen = false;
  /// What is recomputed follows later (--auto), and with that what --partition-activations cuts.
  bool recomputationIsOpen = false;

  bool findSmallest = false; ///< the report as a table ends with the smallest feasible budget
  bool proposesFit = true;   ///< over budget, the error names a change that fits

  Phase stopAfter = Phase::emit;
  std::string dumpPhasesTo; ///< folder for numbered .mlir files; empty: none
  std::string memoryHtml;   ///< file for memoryPage; empty: none
  std::string emitTrace;    ///< file for plannedTrace; empty: none
};

/// Every option by its name.
OptionList listOptions(CompileOptions &options);

/// Reads another tool's configuration (compiler/config) into those of `list`, which is the options', that are not
/// given. Errors: usage, unsupported, those of reading the file.
Status applyConfig(CompileOptions &options, const OptionList &list, const std::string &path);

/// Sets what follows from what is given (a forward-only plan evaluates), and checks that all goes together: the one
/// place of rules over several options. Compiling does it too; doing it again changes nothing. Errors: usage,
/// unsupported.
Status complete(CompileOptions &options);

/// Which of the options change nothing, by what is compiled in the end: a search chooses where these leave it open.
std::vector<std::string> warningsOfNoEffect(const CompileOptions &options, const Strategy &strategy);

/// The command that compiles the same plan again, without its output: the options given, in the order of listOptions.
std::string commandLine(CompileOptions options);

/// The same plan, but nothing written, proposed or searched: for what it predicts.
inline CompileOptions predicting(CompileOptions options) {
  options.output.clear();
  options.dumpPhasesTo.clear();
  options.memoryHtml.clear();
  options.emitTrace.clear();
  options.stopAfter = Phase::emit;
  options.findSmallest = options.proposesFit = false;
  return options;
}

} // namespace zc
