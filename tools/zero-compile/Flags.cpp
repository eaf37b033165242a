//===- Flags.cpp - the command line of zero-compile ------------------------------------===//

#include "tools/zero-compile/Flags.h"
#include "runtime/base/Size.h"
#include "runtime/base/Suggest.h"
#include "tools/zero-compile/DeepSpeedConfig.h"
#include "tools/zero-compile/RawFlags.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <iterator>
#include <set>

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
  --loss-mean rank|global                  over each rank's labels that count, or over all of them
  --auto --device-mem SIZE                 the fastest stage, recomputation and offload that fit
  --checkpoint-activations none|block|selective   recompute instead of keeping
  --bucket-size BYTES, --prefetch BYTES|auto|none, --device-mem SIZE
  --ranks-per-node N, --quantize-weights int8, --hierarchical, --quantize-gradients int4   fewer bytes between nodes
  --offload-optimizer, --offload-param, --offload-activation none|host|nvme, --host-mem, --nvme-mem
  --delay-update, --delay-after N          the host's update beside the next step (40 ordinary steps first)
  --tile-linear BYTES|auto                 linears in tiles that are gathered one after another
  --config ds_config.json                  a DeepSpeed configuration; flags win
  --forward-only [--outputs NAME]          a plan for zero-run eval: no backward, no optimizer
  --dry-run [--json]                       memory, traffic and steps, without a plan
  --memory-html FILE, --emit-trace FILE    the same to look at: memory over the step, queues over time
  --compile-to PHASE, --dump-phases-to DIR look inside
  --help-all                               every flag
)";

namespace {

Error usage(const std::string &message, const std::string &flag = {}) {
  return makeError(Code::usage, 121, message, flag, "see zero-compile --help");
}

Status readSize(const std::string &text, const char *flag, uint64_t least, uint64_t &value) {
  std::optional<uint64_t> size = parseSize(text);
  if (!size || *size < least)
    return usage("\"" + escapeName(text.substr(0, 100)) + "\" is not a size such as 25MiB, 800MB or 4096", flag);
  value = *size;
  return Status::success();
}

Status readDims(const std::vector<std::string> &texts, std::map<std::string, int64_t> &dims) {
  for (const std::string &text : texts) {
    size_t equals = text.rfind('=');
    int64_t value = 0;
    size_t used = 0;
    try {
      value = equals == std::string::npos ? 0 : std::stoll(text.substr(equals + 1), &used);
    } catch (const std::exception &) {
      value = 0;
    }
    if (equals == 0 || equals == std::string::npos || value < 1 || equals + 1 + used != text.size())
      return usage("\"" + text + "\" is not NAME=N with N of at least 1", "--dim");
    auto [entry, isNew] = dims.emplace(text.substr(0, equals), value);
    if (!isNew && entry->second != value)
      return usage("dimension \"" + entry->first + "\" is bound to " + std::to_string(entry->second) + " and to " +
                       std::to_string(value),
                   "--dim");
  }
  return Status::success();
}

Status readTies(const std::vector<std::string> &texts, CompileOptions &options) {
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return usage("\"" + text + "\" is not A=B with the names of two initializers", "--tie");
    options.ties.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return Status::success();
}

Status readPaddings(const std::vector<std::string> &texts, CompileOptions &options) {
  for (const std::string &text : texts) {
    size_t equals = text.rfind('=');
    std::string row = equals == std::string::npos ? "" : text.substr(equals + 1);
    bool isNone = row == "none";
    if (equals == 0 || row.empty() || row.size() > 18 ||
        (!isNone && row.find_first_not_of("0123456789") != std::string::npos))
      return usage("\"" + text + "\" is not GLOB=K with names of initializers and a row, or none", "--padding-idx");
    options.paddingIndices.push_back({text.substr(0, equals), isNone ? std::nullopt : std::optional(std::stoll(row))});
  }
  return Status::success();
}

Status readBetas(const std::string &text, CompileOptions &options) {
  int end = 0;
  if (std::sscanf(text.c_str(), "%lf,%lf%n", &options.beta1, &options.beta2, &end) != 2 || size_t(end) != text.size() ||
      !(options.beta1 >= 0 && options.beta1 < 1) || !(options.beta2 >= 0 && options.beta2 < 1))
    return usage("\"" + text + "\" is not B1,B2 with both in [0, 1)", "--betas");
  return Status::success();
}

/// What only a plan that trains can be told.
constexpr const char *kTrainingOnly[] = {"--optimizer",
                                         "--lr",
                                         "--betas",
                                         "--eps",
                                         "--weight-decay",
                                         "--momentum",
                                         "--no-decay",
                                         "--clip-grad-norm",
                                         "--grad-accumulation",
                                         "--micro-order",
                                         "--checkpoint-activations",
                                         "--offload-optimizer",
                                         "--offload-activation",
                                         "--offload-ratio",
                                         "--delay-update",
                                         "--delay-after",
                                         "--quantize-gradients",
                                         "--quantize-error-feedback",
                                         "--hierarchical",
                                         "--trainable",
                                         "--frozen",
                                         "--ort-optimizer",
                                         "--batch-norm-variance"};

constexpr const char *kLossScale[] = {"--loss-scale",        "--initial-loss-scale",    "--min-loss-scale",
                                      "--loss-scale-window", "--loss-scale-hysteresis", "--consecutive-hysteresis"};

/// A forward-only plan is told nothing about training, and evaluates unless it is told otherwise.
Status completeForwardOnly(const CLI::App &app, CompileOptions &c) {
  if (!c.forwardOnly)
    return c.outputs.empty() ? Status::success()
                             : usage("a plan that trains hands over no outputs; add --forward-only", "--outputs");
  std::vector<const char *> refused(std::begin(kTrainingOnly), std::end(kTrainingOnly));
  refused.insert(refused.end(), std::begin(kLossScale), std::end(kLossScale));
  for (const char *flag : refused)
    if (app.count(flag) > 0)
      return usage("a plan that is --forward-only trains nothing", flag);
  if (app.count("--dropout") == 0)
    c.dropout = "off";
  if (app.count("--batch-norm") == 0)
    c.batchNorm = "eval";
  return Status::success();
}

/// Flags of the loss scale are of fp16, and a fixed one has no rule.
Status checkLossScale(const CLI::App &app, const CompileOptions &c) {
  for (const char *flag : kLossScale) {
    if (app.count(flag) == 0)
      continue;
    if (c.precision != "fp16")
      return usage("only --precision fp16 scales the loss", flag);
    if (c.lossScale > 0 && flag != kLossScale[0])
      return usage("a fixed --loss-scale does not change", flag);
  }
  for (double number : {c.lossScale, c.initialLossScale, c.minLossScale})
    if (!std::isfinite(number)) // the parser's ranges let NaN pass
      return usage("a finite number is wanted", "--loss-scale");
  if (c.lossScale == 0 && c.initialLossScale < c.minLossScale)
    return usage("it is below --min-loss-scale", "--initial-loss-scale");
  // What is kept is of another scale than what it is added to, and stays infinite after an overflow.
  if (c.precision == "fp16" && c.errorFeedback)
    return makeError(Code::unsupported, 122,
                     "feedback to gradients that a loss scale multiplies is not in this version",
                     "--quantize-error-feedback", "leave it out, or use --precision bf16");
  return Status::success();
}

/// A delayed update hides the host's work: without any it would only make parameters older.
Status completeDelay(const CLI::App &app, Flags &flags, const RawFlags &raw) {
  CompileOptions &c = flags.compile;
  if (!raw.delayUpdate)
    return app.count("--delay-after") == 0 ? Status::success()
                                           : usage("it says when --delay-update begins", "--delay-after");
  bool isChosen = (flags.automatic || flags.explainOffload) && app.count("--offload-optimizer") == 0;
  if (c.offloadOptimizer == "none" && !isChosen)
    return usage("only an update on the host is delayed: --offload-optimizer host or nvme", "--delay-update");
  c.delayAfter = raw.delayAfter;
  return Status::success();
}

Status complete(const CLI::App &app, Flags &flags, const RawFlags &raw) {
  CompileOptions &c = flags.compile;
  if (c.model.empty())
    return usage("no model is given");
  ZC_RETURN_IF_ERROR(readDims(raw.dims, c.dims));
  ZC_RETURN_IF_ERROR(readTies(raw.ties, c));
  ZC_RETURN_IF_ERROR(readPaddings(raw.paddings, c));
  ZC_RETURN_IF_ERROR(completeForwardOnly(app, c));
  ZC_RETURN_IF_ERROR(checkLossScale(app, c));
  c.optimizerGiven = app.count("--optimizer") > 0;
  c.lrGiven = app.count("--lr") > 0;
  if (app.count("--betas") > 0)
    ZC_RETURN_IF_ERROR(readBetas(raw.betas, c));
  const std::pair<const char *, double> numbers[] = {{"--lr", c.lr},
                                                     {"--eps", c.eps},
                                                     {"--weight-decay", c.weightDecay},
                                                     {"--momentum", c.momentum},
                                                     {"--clip-grad-norm", c.clipGradNorm},
                                                     {"--offload-ratio", c.offloadRatio}};
  for (auto [flag, value] : numbers)
    if (!std::isfinite(value)) // the parser's ranges let NaN pass
      return usage("a finite number is wanted", flag);
  auto isGiven = [&](const char *flag) { return app.count(flag) > 0; }; // with an empty value too, which is none
  uint64_t size = 0;
  if (isGiven("--bucket-size")) {
    ZC_RETURN_IF_ERROR(readSize(raw.bucketSize, "--bucket-size", 1, size));
    c.bucketSize = static_cast<int64_t>(size);
  }
  if (raw.tileLinear == "auto") {
    c.tileLinear = -1;
  } else if (isGiven("--tile-linear")) {
    ZC_RETURN_IF_ERROR(readSize(raw.tileLinear, "--tile-linear", 1, size));
    c.tileLinear = static_cast<int64_t>(std::min<uint64_t>(size, INT64_MAX));
  }
  if (isGiven("--device-mem"))
    ZC_RETURN_IF_ERROR(readSize(raw.deviceMemory, "--device-mem", 1, c.budgets.device));
  if (isGiven("--host-mem"))
    ZC_RETURN_IF_ERROR(readSize(raw.hostMemory, "--host-mem", 1, c.budgets.host));
  if (isGiven("--nvme-mem"))
    ZC_RETURN_IF_ERROR(readSize(raw.nvmeMemory, "--nvme-mem", 1, c.budgets.nvme));
  if (raw.prefetch == "none") {
    c.prefetch = 0;
  } else if (raw.prefetch != "auto") {
    ZC_RETURN_IF_ERROR(readSize(raw.prefetch, "--prefetch", 0, size));
    c.prefetch = static_cast<int64_t>(size);
  }
  if (raw.residency == "none") {
    c.residency = 0;
  } else if (raw.residency != "auto") {
    ZC_RETURN_IF_ERROR(readSize(raw.residency, "--residency", 0, size));
    c.residency = static_cast<int64_t>(size);
  }
  if (c.quantizeBlock % 2 != 0)
    return usage(std::to_string(c.quantizeBlock) + " elements per scale: an even number is wanted", "--quantize-block");
  if (c.ranksPerNode != 0 && c.worldSize % c.ranksPerNode != 0)
    return usage(std::to_string(c.ranksPerNode) + " ranks per node do not divide a world of " +
                     std::to_string(c.worldSize),
                 "--ranks-per-node");
  if (c.offloadOptimizer != "none" && c.stage == 0 && c.worldSize > 1)
    return usage("stage 0 keeps all optimizer state on every rank; offload needs --zero-stage 1, 2 or 3",
                 "--offload-optimizer");
  if (c.offloadParam != "none" && c.stage < 3 && c.worldSize > 1)
    return usage("only parameters that are cut over ranks are offloaded: --zero-stage 3", "--offload-param");
  ZC_RETURN_IF_ERROR(completeDelay(app, flags, raw));
  static const std::map<std::string, Phase> phases = {{"import", Phase::import},
                                                      {"grad", Phase::grad},
                                                      {"shard", Phase::shard},
                                                      {"schedule", Phase::schedule},
                                                      {"plan", Phase::plan}};
  if (!raw.compileTo.empty())
    c.stopAfter = phases.at(raw.compileTo);
  if (flags.automatic && c.budgets.device == 0)
    return usage("--auto chooses within a budget", "--device-mem");
  auto isFree = [&](const char *flag) { return app.count(flag) == 0; };
  flags.freedom = {isFree("--zero-stage"),
                   isFree("--checkpoint-activations"),
                   isFree("--offload-optimizer") && !c.forwardOnly,
                   isFree("--offload-param"),
                   isFree("--offload-activation") && !c.forwardOnly,
                   isFree("--bucket-size")};
  flags.command = raw.list ? Flags::Command::listParameters : Flags::Command::compile;
  bool producesNothing = c.output.empty() && !flags.dryRun && !flags.explainOffload && !raw.list &&
                         c.stopAfter == Phase::emit && c.dumpPhasesTo.empty() && c.memoryHtml.empty() &&
                         c.emitTrace.empty();
  if (producesNothing)
    return usage("say where the plan goes with -o OUT.plan, or ask for --dry-run or --list-parameters");
  return Status::success();
}

Error unknownArgument(const CLI::App &app, const std::string &argument) {
  std::string name = argument.substr(0, argument.find('=')).substr(0, 100);
  if (name.empty() || name[0] != '-')
    return usage("unexpected argument \"" + name + "\"");
  std::vector<std::string> known;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &longName : option->get_lnames())
      known.push_back("--" + longName);
  std::string near = nearest(name, known);
  return makeError(Code::usage, 123, "unknown flag \"" + name + "\"", "",
                   near.empty() ? "zero-compile --help-all lists all flags" : "did you mean \"" + near + "\"?");
}

/// Appends what the configuration says and the command line does not.
Status addConfig(const CLI::App &app, const std::string &path, std::vector<std::string> &arguments,
                 std::vector<std::string> &notes) {
  Result<DeepSpeedConfig> config = readDeepSpeedConfig(path);
  if (!config)
    return config.error();
  std::string taken;
  std::set<std::string> given;
  for (const auto &[flag, value] : config->flags) {
    if (app.count(flag) > 0 || !given.insert(flag).second)
      continue;
    arguments.push_back(value.empty() ? flag : flag + "=" + value);
    taken += " " + flag + (value.empty() ? "" : " " + value);
  }
  notes.push_back(escapeName(path) + " means" + (taken.empty() ? " nothing beyond the flags given" : taken));
  for (const std::string &note : config->notes)
    notes.push_back(escapeName(path) + ": " + note);
  return Status::success();
}

/// `arguments` in their order. A configuration is read where there is one, and all is parsed again with what it adds.
Result<Flags> parse(std::vector<std::string> arguments, bool readsConfig, std::vector<std::string> notes = {}) {
  Flags flags;
  RawFlags raw;
  CLI::App app{"zero-compile: turns an exported ONNX training graph into a ZeRO plan", "zero-compile"};
  app.set_help_flag();
  app.allow_extras();
  addFlags(app, flags, raw);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend())); // CLI11 takes them reversed
  } catch (const CLI::ParseError &error) {
    if (!raw.help && !raw.helpAll)
      return usage(error.what());
  } catch (const std::exception &error) {
    return usage(error.what());
  }
  if (raw.help || raw.helpAll || raw.version || arguments.empty()) {
    flags.command = Flags::Command::text;
    flags.text = raw.version   ? "zero-compile " ZC_VERSION "\n"
                 : raw.helpAll ? app.help("", CLI::AppFormatMode::All)
                               : kHelp;
    return flags;
  }
  if (std::vector<std::string> extras = app.remaining(); !extras.empty())
    return unknownArgument(app, extras.front());
  if (readsConfig && !raw.config.empty()) {
    ZC_RETURN_IF_ERROR(addConfig(app, raw.config, arguments, notes));
    return parse(std::move(arguments), /*readsConfig=*/false, std::move(notes));
  }
  flags.notes = std::move(notes);
  ZC_RETURN_IF_ERROR(complete(app, flags, raw));
  return flags;
}

} // namespace

Result<Flags> parseFlags(int argc, char **argv) {
  std::vector<std::string> arguments, mlir;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    (argument.rfind("--mlir-", 0) == 0 ? mlir : arguments).push_back(argument);
  }
  Result<Flags> flags = parse(std::move(arguments), /*readsConfig=*/true);
  if (flags)
    flags->mlir = std::move(mlir);
  return flags;
}

} // namespace zc::tool