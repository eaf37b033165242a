//===- Flags.cpp - the command line of zero-compile ------------------------------------===//

#include "tools/zero-compile/Flags.h"
#include "base/Suggest.h"
#include "compiler/pipeline/Auto.h"
#include "compiler/pipeline/Driver.h"
#include "tools/CommandLine.h"

#include <deque>
#include <unistd.h>

namespace zc::tool {

static const char *const kHelp = R"(zero-compile: turns an exported ONNX training graph into a ZeRO plan

  zero-compile model.onnx -o model.plan
  zero-compile model.onnx -o model.plan --world-size 4 --zero-stage 3 --lr 3e-4 --clip-grad-norm 1
  zero-compile model.onnx --dim batch=8 --dim seq=128 --world-size 8 --zero-stage 2 --dry-run
  zero-compile model.onnx --list-parameters

usage: zero-compile MODEL.onnx (-o OUT.plan | --dry-run | --list-parameters) [flags]

  --world-size N, --zero-stage 0..3        how many ranks, what is partitioned
  --dim NAME=N                             bind a symbolic dimension
  --optimizer adamw|adam|sgd|momentum      and --lr, --betas, --eps, --weight-decay, --momentum
  --clip-grad-norm X, --grad-accumulation G, --precision fp32|bf16|fp16
  --batch-norm train|eval|as-exported      and --batch-norm-variance torch|onnx; --dropout force|off|as-exported
  --param-groups FILE, --trainable GLOB    rates, weight decay and what trains, by name
  --with-eval                              the plan evaluates on the way: zero-run --eval-data, --eval-tokens
  --loss-mean rank|global                  over each rank's labels that count, or over all of them
  --auto --device-mem SIZE                 the fastest stage, recomputation and offload that fit
  --target cpu|cuda, --machine h100|FILE   what the plan is for, and how fast that is
  --tensor-parallel T                      T ranks of a node share the work on a sample
  --fuse off|head|on                       operations that become one
  --checkpoint-activations none|block|selective   recompute instead of keeping
  --bucket-size BYTES, --prefetch BYTES|auto|none, --device-mem SIZE
  --ranks-per-node N, --quantize-weights int8, --hierarchical, --quantize-gradients int4   fewer bytes between nodes
  --offload-optimizer, --offload-param, --offload-activation none|host|nvme, --host-mem, --nvme-mem
  --delay-update, --delay-after N          the host's update beside the next step (40 ordinary steps first)
  --tile-linear BYTES|auto                 linears in tiles that are gathered one after another
  --config ds_config.json                  a DeepSpeed configuration; flags win
  --forward-only [--outputs NAME]          a plan for zero-run eval: no backward, no optimizer
  --dry-run, --json                        memory, traffic and steps, without a plan; the same as JSON
  --memory-html FILE, --emit-trace FILE    the same to look at: memory over the step, queues over time
  --compile-to PHASE, --dump-phases-to DIR look inside
  --help-all                               every flag
)";

namespace {

/// Flags that are of the tool, not of a compilation.
struct ToolFlags {
  std::string config, compileTo;
  bool list = false, help = false, helpAll = false, version = false;
};

constexpr std::pair<const char *, Phase> kPhases[] = {{"import", Phase::import},
                                                      {"grad", Phase::grad},
                                                      {"shard", Phase::shard},
                                                      {"schedule", Phase::schedule},
                                                      {"plan", Phase::plan}};

void addToolFlags(CLI::App &app, Flags &flags, ToolFlags &tool) {
  CompileOptions &c = flags.compile;
  app.add_option("model", c.model, "the exported training graph");
  app.add_option("-o,--output", c.output, "the plan");
  app.add_option("--config", tool.config, "a DeepSpeed configuration; a flag that is given as well wins");
  app.add_flag("--dry-run", flags.dryRun, "no plan; the report")->group("Inspect");
  app.add_flag("--json", flags.json, "the report as JSON")->group("Inspect");
  app.add_flag("--list-parameters", tool.list, "name, dtype, shape, role, tied names, evidence")->group("Inspect");
  app.add_option("--compile-to", tool.compileTo, "stop after import, grad, shard, schedule or plan; IR to stdout or -o")
      ->group("Inspect");
  app.add_option("--dump-phases-to", c.dumpPhasesTo, "folder for the IR after each phase")->group("Inspect");
  app.add_option("--memory-html", c.memoryHtml, "page with the memory of each tier over the step")->group("Inspect");
  app.add_option("--emit-trace", c.emitTrace, "Chrome trace of the planned step, as zero-run --trace writes one")
      ->group("Inspect");
  app.add_flag("--explain-offload", flags.explainOffload, "what other placements would need and move")
      ->group("Partitioning");
  app.add_flag("--explain-sharding", flags.explainSharding,
               "of --tensor-parallel: per weight what is cut, why, and bytes")
      ->group("Partitioning");
  app.add_flag("--auto", flags.automatic,
               "choose what no flag says of stage, recomputation and offload: the fastest plan within the budgets")
      ->group("Partitioning");
  app.add_flag("-h,--help", tool.help, "the short help");
  app.add_flag("--help-all", tool.helpAll, "every flag");
  app.add_flag("--version", tool.version, "the version");
}

/// The options of a compilation as flags: their texts are read when all are known.
class OptionFlags {
public:
  OptionFlags(CLI::App &app, const OptionList &list) : app(app) {
    for (const Option &option : list.options)
      if (option.isFlag)
        add(option);
  }

  /// Reads them in the order in which they were given. Errors: those of the options.
  Status read(GivenOptions &given) {
    for (const CLI::Option *parsed : app.parse_order())
      for (Flag &flag : flags)
        if (flag.parsed == parsed) {
          std::string text = flag.option->kind != Option::Kind::flag ? flag.texts[flag.numRead++]
                             : flag.isOn                             ? "true"
                                                                     : "false";
          ZC_RETURN_IF_ERROR(flag.option->read(text));
          given[flag.option->name].push_back(std::move(text));
        }
    return Status::success();
  }

private:
  struct Flag {
    const Option *option = nullptr;
    CLI::Option *parsed = nullptr;
    std::vector<std::string> texts;
    size_t numRead = 0; ///< of texts
    bool isOn = false;
  };

  void add(const Option &option) {
    Flag &flag = flags.emplace_back();
    flag.option = &option;
    const std::string name = "--" + option.name;
    if (option.kind == Option::Kind::flag) {
      flag.parsed = app.add_flag(name, flag.isOn, option.help)->group(option.group);
      return;
    }
    // One value each time: what follows may be the model.
    flag.parsed = app.add_option(name, flag.texts, option.help)->group(option.group)->type_name(option.values);
    flag.parsed->expected(1)->allow_extra_args(false);
    flag.parsed->multi_option_policy(option.kind == Option::Kind::several ? CLI::MultiOptionPolicy::TakeAll
                                                                          : CLI::MultiOptionPolicy::Throw);
  }

  CLI::App &app;
  std::deque<Flag> flags; ///< the parser keeps references
};

/// Of --compile-to; none leaves it as it is.
Status readPhase(const std::string &text, Phase &stopAfter) {
  std::vector<std::string> known;
  for (const auto &[name, phase] : kPhases) {
    known.emplace_back(name);
    if (text == name)
      return stopAfter = phase, Status();
  }
  return text.empty() ? Status::success() : optionError(notOneOf(text, known), "compile-to");
}

/// What is asked for is one thing, or several that go together: nothing is left out without a word.
Status checkOutcome(Flags &flags, const ToolFlags &tool) {
  const CompileOptions &c = flags.compile;
  const bool explains = flags.explainOffload || flags.explainSharding, stops = c.stopAfter != Phase::emit;
  const bool compiles = flags.dryRun || stops || !c.output.empty() || !c.dumpPhasesTo.empty() ||
                        !c.memoryHtml.empty() || !c.emitTrace.empty();
  flags.explainsOnly = explains && !compiles;
  if (tool.list && (compiles || explains))
    return optionError("it prints the table of parameters and makes no plan, report or file", "list-parameters");
  if (flags.json && (stops || flags.explainsOnly))
    return optionError("JSON is made of the report (--dry-run, -o) and of --list-parameters", "json");
  if (flags.dryRun && stops)
    return optionError("it reports on a plan, which is not made with --compile-to " + tool.compileTo, "dry-run");
  for (const auto &[file, flag] : {std::pair(&c.memoryHtml, "memory-html"), std::pair(&c.emitTrace, "emit-trace")})
    if (stops && !file->empty())
      return optionError("it shows a plan, which is not made with --compile-to " + tool.compileTo, flag);
  const bool writesPlan = c.output == "-" && !stops && !flags.dryRun;
  if (writesPlan && ::isatty(1))
    return optionError("a plan is not written to a terminal", "output");
  if (writesPlan && flags.json)
    return optionError("the report as JSON is on stdout, where -o - writes the plan", "json");
  if (!compiles && !explains && !tool.list)
    return optionError("say where the plan goes with -o OUT.plan, or ask for --dry-run or --list-parameters", "");
  return Status::success();
}

Status complete(Flags &flags, const ToolFlags &tool) {
  CompileOptions &c = flags.compile;
  if (flags.automatic)
    leaveOpen(c);
  if (flags.explainOffload)
    c.offloadIsOpen = !c.isGiven("offload-optimizer");
  ZC_RETURN_IF_ERROR(readPhase(tool.compileTo, c.stopAfter));
  ZC_RETURN_IF_ERROR(zc::complete(c));
  if (flags.automatic)
    ZC_RETURN_IF_ERROR(takeBudget(c, flags.notes));
  flags.command = tool.list ? Flags::Command::listParameters : Flags::Command::compile;
  return checkOutcome(flags, tool);
}

/// `extras`: what the parser did not take.
Status checkExtras(const CLI::App &app, const std::vector<std::string> &extras) {
  const std::optional<Untaken> untaken = firstUntaken(extras);
  if (!untaken)
    return Status::success();
  const std::string &name = untaken->name;
  if (!untaken->isFlag)
    return optionError("unexpected argument \"" + name + "\"", "");
  return makeError(Code::usage, 123, "unknown flag \"" + name + "\"", "",
                   adviceOnFlag(name, longFlags(app), "zero-compile"));
}

Status checkValues(const CLI::App &app) {
  const std::optional<std::string> flag = flagWithoutValue(app);
  return flag ? optionError("the value of \"" + *flag + "\" is empty: give one, or leave the flag out", "") : Status();
}

Result<Flags> parse(std::vector<std::string> arguments) {
  Flags flags;
  ToolFlags tool;
  CLI::App app{"zero-compile: turns an exported ONNX training graph into a ZeRO plan", "zero-compile"};
  app.set_help_flag();
  app.allow_extras();
  addToolFlags(app, flags, tool);
  const OptionList list = listOptions(flags.compile);
  OptionFlags options(app, list);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend())); // CLI11 takes them reversed
  } catch (const CLI::ParseError &error) {
    if (!tool.help && !tool.helpAll)
      return optionError(inOurWords(error.what()), "");
  } catch (const std::exception &error) {
    return optionError(error.what(), "");
  }
  if (tool.help || tool.helpAll || tool.version || arguments.empty()) {
    flags.command = Flags::Command::text;
    flags.text = tool.version   ? "zero-compile " ZC_VERSION "\n"
                 : tool.helpAll ? app.help("", CLI::AppFormatMode::All)
                                : kHelp;
    return flags;
  }
  ZC_RETURN_IF_ERROR(checkExtras(app, app.remaining()));
  ZC_RETURN_IF_ERROR(checkValues(app));
  ZC_RETURN_IF_ERROR(options.read(flags.compile.given));
  if (!tool.config.empty()) {
    ZC_RETURN_IF_ERROR(applyConfig(flags.compile, list, tool.config));
    flags.notes = flags.compile.config.notes;
  }
  if (Status status = complete(flags, tool); !status.ok())
    return flags.compile.config.located(status.error());
  return flags;
}

} // namespace

Result<Flags> parseFlags(int argc, char **argv) {
  std::vector<std::string> arguments, mlir;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const bool isMlirs = argument.rfind("--mlir-", 0) == 0;
    if (isMlirs && argument.find('=') == std::string::npos && i + 1 < argc && mlirFlagTakesValue(argument))
      argument += std::string("=") + argv[++i];
    (isMlirs ? mlir : arguments).push_back(argument);
  }
  Result<Flags> flags = parse(std::move(arguments));
  if (flags)
    flags->mlir = std::move(mlir);
  return flags;
}

} // namespace zc::tool
