#include "tools/zero-run/Flags.h"
#include "runtime/base/Size.h"
#include "runtime/base/Suggest.h"
#include "runtime/io/FileKind.h"
#include "runtime/plan/Tiers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

namespace zc::run {

static const char *const kHelp = R"(zero-run: trains what zero-compile planned

  zero-run gpt2.plan -n 2 --data inputs.safetensors --steps 100 --out runs/gpt2
  zero-run gpt.plan -n 4 --tokens book.txt --byte-level --epochs 1 --lr-schedule cosine --warmup 20
  zero-run gpt.plan -n 4 --tokens book.txt --byte-level --steps 1000 --save-every 100 --resume auto
  zero-run eval gpt-eval.plan -n 4 --tokens held-out.txt --byte-level --weights runs/gpt/final
  zero-run export runs/gpt2/final --onnx trained.onnx
  zero-run inspect gpt2.plan

usage: zero-run PLAN -n RANKS (--data FILE|DIR | --tokens FILE...) [--steps S] [--out DIR]
       zero-run eval PLAN -n RANKS (--data ... | --tokens ...) [--weights CHECKPOINT] [--outputs FILE]
       zero-run inspect PLAN [--text | --kernels]
       zero-run export CHECKPOINT|RUN (--onnx OUT | --safetensors OUT)
       zero-run checkpoint verify CHECKPOINT|RUN
       mpirun -n RANKS zero-run PLAN ...  |  zero-run PLAN --hosts a:2,b:2 ...
       zero-run doctor | bench-io DIR [-o MACHINE] | bench-machine PLAN... | slurm-template

  -n N               ranks, threads of this process        --lr X, --lr-schedule NAME, --warmup N
  --data, --tokens   what to train on                      --save-every K, --resume auto|DIR, --overwrite
  --steps, --epochs  how long                              --weights FILE, --device cpu|sync, --threads T
  --help-all         every flag
)";

namespace {

/// Where the flags of each command are bound; CLI11 keeps references into it.
struct Parser {
  Flags flags;
  CLI::App app{"zero-run: trains what zero-compile planned", "zero-run"};
  CLI::App *eval = nullptr, *inspect = nullptr, *exporting = nullptr, *doctor = nullptr, *bench = nullptr,
           *benchMachine = nullptr, *slurm = nullptr, *checkpoint = nullptr;
  std::string logFormat = "text", graphs = "on", trace, profile, verb, benchSize = "512MiB";
  double lr = 0;
  uint64_t seed = 0;
  bool help = false, helpAll = false, version = false;

  Parser();
  void addJob(CLI::App &app);
  void addData(CLI::App &app);
  void addOutput(CLI::App &app);
  void addMachine(CLI::App &app);
  void addProcesses(CLI::App &app);
  void addTraining();
  void addValidation();
  void addEvaluation();
  void addBenchMachine();
  void addCommands();
};

Parser::Parser() {
  app.set_help_flag();
  app.add_flag("-h,--help", help, "the short help");
  app.add_flag("--help-all", helpAll, "every flag");
  app.add_flag("--version", version, "the version");
  app.allow_extras();
  addTraining();
  addValidation();
  addCommands();
}

/// Numbers of [least, most], told apart from other text before the parser converts it. The limits are for arithmetic,
/// not for people, so the help does not show them.
template <typename T> CLI::Validator within(T least, T most) {
  auto complaint = [least, most](const std::string &text) {
    T value = 0;
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return std::string();
    std::ostringstream out;
    out << "\"" << text.substr(0, 100) << "\" is not a " << (std::is_integral_v<T> ? "whole " : "") << "number from "
        << least << " to " << most;
    return out.str();
  };
  return {complaint, ""};
}
CLI::Validator positive(int64_t most = int64_t(1) << 40) { return within<int64_t>(1, most); }

/// What training and evaluation are told alike.
void Parser::addJob(CLI::App &app) {
  app.add_option("-n,--nproc-per-node", flags.run.worldSize, "ranks, as threads of this process (default: as planned)")
      ->check(positive(65536));
  addData(app);
  addOutput(app);
  addMachine(app);
  addProcesses(app);
}

void Parser::addData(CLI::App &app) {
  train::RunOptions &run = flags.run;
  const char *group = "Data";
  app.add_option("--data", run.data.data, "FILE.safetensors or a folder of INPUT.npy; arrays [samples, ...]")
      ->group(group);
  app.add_option("--tokens", run.data.tokens,
                 "token files, read as one stream: llm.c .bin, .npy, raw with --token-type, any with --byte-level; "
                 "FILE:WEIGHT...: each by itself, WEIGHT times an epoch")
      ->group(group);
  app.add_option("--token-type", run.data.tokenType, "of --tokens files without a header, such as nanoGPT's (uint16)")
      ->check(CLI::IsMember({"uint16", "uint32", "int32", "int64"}))
      ->group(group);
  app.add_flag("--byte-level", run.data.byteLevel, "each byte of the files is a token")->group(group);
  app.add_flag("--shift-labels", run.data.shiftLabels, "labels are the following tokens; for graphs that do not shift")
      ->group(group);
  app.add_option("--seed", seed, "of the order and of dropout (default: the plan's)")
      ->check(within<uint64_t>(0, UINT64_MAX))
      ->group(group);
  app.add_option("--weights", run.weights, "safetensors, a checkpoint or a run's folder, instead of the model's")
      ->group(group);
}

void Parser::addOutput(CLI::App &app) {
  const char *group = "Output";
  app.add_option("--log-every", flags.logEvery, "steps between lines")->check(positive())->group(group);
  app.add_flag("--quiet", flags.quiet, "no progress")->group(group);
  app.add_option("--log-format", logFormat, "text, or json: one object per step on stdout")
      ->check(CLI::IsMember({"text", "json"}))
      ->group(group);
}

void Parser::addMachine(CLI::App &app) {
  train::RunOptions &run = flags.run;
  const char *group = "Machine";
  app.add_option(
         "--device", run.device,
         "cpu, sync (all queues inline), fake (a GPU's streams, of threads in random order: for tests), cuda, or "
         "cuda-sync (step by step) (default: what the plan is for)")
      ->check(CLI::IsMember({"cpu", "cuda", "cuda-sync", "fake", "sync"}))
      ->group(group);
  app.add_option("--graphs", graphs,
                 "on: what streams do again and again is captured and launched as one; off: kernel by kernel")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(group);
  app.add_option("--threads", run.threads, "threads per rank (default: cores, or a control group's quota, / ranks)")
      ->check(positive(4096))
      ->group(group);
  app.add_option("--products", run.products,
                 "FILE of bench-machine, or none: how matrix products of its shapes are computed (default: this "
                 "machine's, in the cache folder)")
      ->group(group);
  app.add_flag("--reserve", run.reserve, "take all memory of the arenas before the first step, or refuse")
      ->group(group);
  app.add_option("--nvme-dir", run.nvme.folder, "where the NVMe tier's file goes")->group(group);
  app.add_flag("!--no-spill-checksum", run.nvme.checksums, "trust the disk: no checksum of what the NVMe tier reads")
      ->group(group);
}

/// Of ranks that are not threads of this process.
void Parser::addProcesses(CLI::App &app) {
  train::RunOptions &run = flags.run;
  const char *group = "Ranks as processes";
  app.add_option("--hosts", flags.hosts,
                 "FILE or a:2,b:2: start the ranks there by mpirun; -n is for hosts without a number")
      ->group(group);
  app.add_option("--comm", flags.comm, "inproc (threads), mpi (one process per rank), auto (mpi under mpirun or srun)")
      ->check(CLI::IsMember({"auto", "inproc", "mpi"}))
      ->group(group);
  app.add_option("--watchdog", run.watchdog,
                 "seconds after which a collective or a file counts as stuck (300; 0: never)")
      ->check(within(0.0, 1e9))
      ->group(group);
  app.add_option("--init-timeout", flags.initTimeout, "seconds for all ranks to meet (60)")
      ->check(within(0.1, 1e9))
      ->group(group);
}

void Parser::addTraining() {
  train::RunOptions &run = flags.run;
  app.add_option("plan", run.plan, "plan file of zero-compile");
  addJob(app);
  app.add_flag("--shuffle", run.data.shuffle, "another order in each epoch")->group("Data");
  const char *group = "Training";
  app.add_option("--steps", run.steps, "optimizer steps")->check(positive())->group(group);
  app.add_option("--epochs", run.epochs, "passes over the data, when --steps is not given (1)")
      ->check(within(1e-9, 1e9))
      ->group(group);
  app.add_option("--lr", lr, "learning rate (default: the plan's)")->check(within(0.0, 1e9))->group(group);
  app.add_option("--lr-schedule", run.schedule,
                 "NAME[:KEY=VALUE,...]: constant, linear, cosine, wsd, cosine-restarts, polynomial, inverse-sqrt, "
                 "deepspeed-* with warmup=, rise=, from=, end=, steps=, ... (docs/cli.md; default: the plan's)")
      ->group(group);
  app.add_option("--warmup", run.warmup, "steps of warm-up, in place of the schedule's")
      ->check(within<int64_t>(0, int64_t(1) << 40))
      ->group(group);
  group = "Output";
  app.add_option("--out", run.out, "folder (default: runs/<model>)")->group(group);
  app.add_option("--save-every", run.saveEvery, "steps between checkpoints OUT/step-K")
      ->check(positive())
      ->group(group);
  app.add_flag("!--no-final", run.savesFinal, "no checkpoint OUT/final at the end: for runs that only measure")
      ->group(group);
  app.add_option_function<std::string>(
         "--ckpt-on-error", [&run](const std::string &what) { run.outlivesFailedSave = what == "warn"; },
         "when a checkpoint of --save-every cannot be written: stop (default), or warn and go on")
      ->check(CLI::IsMember({"stop", "warn"}))
      ->group(group);
  app.add_option("--keep", run.keep, "newest checkpoints kept (default: all)")->check(positive())->group(group);
  app.add_option("--resume", run.resume,
                 "auto (newest whole checkpoint of OUT), a checkpoint, or a run's folder; of this or another plan")
      ->group(group);
  app.add_flag("--overwrite", run.overwrite, "remove an earlier run from OUT")->group(group);
  app.add_flag("--data-changed", run.dataChanged, "go on though data or their order are others than the checkpoint's")
      ->group("Data");
  app.add_option("--trace", trace, "FROM:TO, Chrome trace of these steps into OUT/trace.json")->group(group);
  app.add_option("--profile", profile,
                 "FROM:TO, where the time of these steps goes: a table, OUT/profile.html with the slowest steps")
      ->group(group);
}

/// Evaluating while training.
void Parser::addValidation() {
  train::RunOptions &run = flags.run;
  const char *group = "Evaluation on the way (plans of zero-compile --with-eval)";
  app.add_option("--eval-data", run.evalData, "as --data, to evaluate on")->group(group);
  app.add_option("--eval-tokens", run.evalTokens, "as --tokens, to evaluate on; read as those are")->group(group);
  app.add_option("--eval-every", run.evalEvery, "steps between evaluations (default: after the last one)")
      ->check(positive())
      ->group(group);
  app.add_option("--eval-steps", run.evalSteps, "of one batch per rank (default: all samples, once)")
      ->check(positive())
      ->group(group);
  app.add_flag("--keep-best", run.keepBest, "a checkpoint OUT/best of the lowest loss")->group(group);
  app.add_option("--early-stop", run.earlyStop, "evaluations without a lower loss that end the run")
      ->check(positive())
      ->group(group);
}

void Parser::addEvaluation() {
  train::RunOptions &run = flags.run;
  eval = app.add_subcommand("eval", "mean loss and outputs of a --forward-only plan over a data set");
  eval->add_option("plan", run.plan, "plan file of zero-compile --forward-only");
  addJob(*eval);
  eval->add_option("--steps", run.steps, "steps of one batch per rank (default: all samples, once)")
      ->check(positive())
      ->group("Data");
  eval->add_option("--outputs", flags.outputs, "safetensors file for what the plan computes, in data order")
      ->group("Output");
  eval->add_option("--out", run.out, "folder for eval.json, the last line's object (default: none)")->group("Output");
}

void Parser::addBenchMachine() {
  benchMachine = app.add_subcommand("bench-machine", "measures who is fastest at the matrix products of plans here");
  benchMachine->add_option("plans", flags.benchPlans, "plan files");
  benchMachine->add_option("--shape", flags.benchProducts, "TYPE:FACTORS:MxNxK[:BATCH], as in bf16:nt:1024x768x3072");
  benchMachine->add_option("-o,--output", flags.products, "file to write, or to add to (default: the cache folder's)");
  benchMachine->add_option("--threads", flags.run.threads, "per rank (default: as a run of the plan here)")
      ->check(positive(4096));
  benchMachine->add_option("--rounds", flags.benchRounds, "in which each way runs (5)")->check(within(1, 1000));
}

void Parser::addCommands() {
  addEvaluation();
  inspect = app.add_subcommand("inspect", "what a plan holds");
  inspect->add_option("plan", flags.run.plan, "plan file")->required();
  inspect->add_flag("--text", flags.wholeText, "the whole plan as text");
  inspect->add_flag("--kernels", flags.kernels,
                    "who computes the steps: our own kernels, a library, plain loops; --text: of each");
  inspect->add_option("--threads", flags.run.threads, "of --kernels: per rank (default: as a run here)")
      ->check(positive(4096));
  inspect->add_option("--products", flags.run.products, "of --kernels: as a run's");
  inspect->add_option("--device", flags.run.device, "of --kernels: cpu, cuda or sync (default: what the plan is for)")
      ->check(CLI::IsMember({"cpu", "cuda", "sync"}));
  exporting = app.add_subcommand("export", "a checkpoint's weights as a file");
  exporting->add_option("checkpoint", flags.checkpoint, "OUT/step-K, OUT/final, or OUT for its newest")->required();
  exporting->add_option("--onnx", flags.onnx, "the model with the trained weights");
  exporting->add_option("--safetensors", flags.safetensors, "the weights alone");
  exporting->add_option("--model", flags.model, "where the original model is now");
  checkpoint = app.add_subcommand("checkpoint", "verify DIR: whether a checkpoint, or all of a run, are whole");
  checkpoint->add_option("what", verb, "verify: reads every byte and compares all hashes")
      ->required()
      ->check(CLI::IsMember({"verify"}));
  checkpoint->add_option("folder", flags.checkpoint, "a checkpoint's or a run's folder")->required();
  doctor = app.add_subcommand("doctor", "what this machine has");
  slurm = app.add_subcommand("slurm-template", "a batch script for Slurm");
  bench = app.add_subcommand("bench-io", "measures this machine, for zero-compile --machine");
  bench->add_option("folder", flags.benchFolder, "where the NVMe tier would go")->required();
  bench->add_option("--size", benchSize, "bytes written and read there (512MiB)");
  bench->add_option("-o", flags.machine, "file to write (default: stdout)");
  bench->add_option("--threads", flags.run.threads, "threads of a rank's kernels (1)")->check(positive(4096));
  addBenchMachine();
  for (CLI::App *command : {eval, inspect, exporting, doctor, bench, benchMachine, slurm, checkpoint}) {
    command->set_help_flag();
    command->add_flag("-h,--help", help, "the short help");
    command->allow_extras();
  }
}

Error unknownArgument(const CLI::App &app, const std::string &argument) {
  std::string name = argument.substr(0, argument.find('=')).substr(0, 100);
  if (name.empty() || name[0] != '-')
    return makeError(Code::usage, 961, "unexpected argument \"" + name + "\"", "", "see zero-run --help");
  std::vector<std::string> flags;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &known : option->get_lnames())
      flags.push_back("--" + known);
  return makeError(Code::usage, 962, "unknown flag \"" + name + "\"", "", adviceOnFlag(name, flags, "zero-run"));
}

Error usage(std::string message, const std::string &flag) {
  message[0] = char(std::tolower(message[0])); // the parser's begin with a capital
  return makeError(Code::usage, 963, message, flag, "see zero-run --help");
}

/// A shell's variable that is not set would else be a flag that was not given.
Status checkValues(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        return makeError(Code::usage, 965, "the value of \"" + option->get_name() + "\" is empty", option->get_name(),
                         "give one, or leave the flag out");
  return Status::success();
}

/// "FROM:TO", steps from 1.
Status readSteps(const std::string &text, const char *flag, train::StepRange &steps) {
  long long from = 0, to = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lld:%lld%n", &from, &to, &end) != 2 || size_t(end) != text.size() || from < 1 ||
      to < from)
    return usage("\"" + text + "\" is not FROM:TO with 1 <= FROM <= TO", flag);
  steps = {from, to};
  return Status::success();
}

/// `--tokens` and `--eval-tokens` take all names that follow them: a plan among them is the plan.
void takePlanFromTokens(train::RunOptions &run) {
  for (std::vector<std::string> *files : {&run.data.tokens, &run.evalTokens}) {
    auto plan = std::find_if(files->rbegin(), files->rend(), [](const std::string &file) { return io::isPlan(file); });
    if (!run.plan.empty() || plan == files->rend())
      continue;
    run.plan = *plan;
    files->erase(std::next(plan).base());
  }
}

/// What is said of evaluations has data to evaluate on, and one kind of them.
Status checkValidation(const Parser &parser) {
  const train::RunOptions &run = parser.flags.run;
  for (const char *flag : {"--eval-every", "--eval-steps", "--keep-best", "--early-stop"})
    if (parser.app.count(flag) && !run.evaluates())
      return usage("\"" + std::string(flag) + "\" needs --eval-data or --eval-tokens", flag);
  if (!run.evalData.empty() && !run.evalTokens.empty())
    return usage("\"--eval-data\" and \"--eval-tokens\" exclude each other", "--eval-data");
  return Status::success();
}

Error noPlan(const Parser &parser) {
  const train::RunOptions &run = parser.flags.run;
  Error error = usage("no plan is given", parser.eval->parsed() ? "eval" : "");
  if (!run.data.tokens.empty()) {
    error.note = "--tokens took \"" + run.data.tokens.back() + "\"";
    error.help = "the plan comes first: zero-run PLAN --tokens FILE...";
  }
  return error;
}

/// What the parser cannot check by itself.
Status complete(Parser &parser) {
  Flags &flags = parser.flags;
  if (parser.exporting->parsed()) {
    flags.command = Flags::Command::exportWeights;
    if (flags.onnx.empty() == flags.safetensors.empty())
      return usage("give either --onnx OUT or --safetensors OUT", "export");
    return Status::success();
  }
  if (parser.checkpoint->parsed()) {
    flags.command = Flags::Command::verifyCheckpoint;
    return Status::success();
  }
  if (parser.bench->parsed()) {
    auto size = parseSize(parser.benchSize);
    if (!size || *size < kBlockBytes)
      return usage("\"" + parser.benchSize + "\" is no size of at least 4096 bytes", "--size");
    flags.benchBytes = *size;
  }
  if (parser.benchMachine->parsed()) {
    flags.command = Flags::Command::benchMachine;
    return flags.benchPlans.empty() && flags.benchProducts.empty()
               ? usage("give plans, or shapes by --shape", "bench-machine")
               : Status::success();
  }
  if (parser.inspect->parsed() || parser.doctor->parsed() || parser.bench->parsed() || parser.slurm->parsed()) {
    flags.command = parser.inspect->parsed()  ? Flags::Command::inspect
                    : parser.doctor->parsed() ? Flags::Command::doctor
                    : parser.slurm->parsed()  ? Flags::Command::slurmTemplate
                                              : Flags::Command::benchIo;
    return Status::success();
  }
  flags.command = parser.eval->parsed() ? Flags::Command::eval : Flags::Command::train;
  takePlanFromTokens(flags.run);
  if (flags.run.plan.empty())
    return noPlan(parser);
  if (!flags.run.data.tokenType.empty() &&
      (flags.run.data.byteLevel || (flags.run.data.tokens.empty() && flags.run.evalTokens.empty())))
    return usage(flags.run.data.byteLevel ? "\"--byte-level\" and \"--token-type\" exclude each other"
                                          : "\"--token-type\" is for --tokens",
                 "--token-type");
  ZC_RETURN_IF_ERROR(checkValidation(parser));
  if (parser.app.count("--lr"))
    flags.run.lr = parser.lr;
  if (parser.app.count("--seed") || parser.eval->count("--seed"))
    flags.run.seed = parser.seed;
  flags.run.graphs = parser.graphs == "on";
  flags.jsonLog = parser.logFormat == "json";
  if (!parser.trace.empty())
    ZC_RETURN_IF_ERROR(readSteps(parser.trace, "--trace", flags.run.trace));
  return parser.profile.empty() ? Status::success() : readSteps(parser.profile, "--profile", flags.run.profile);
}

/// The arguments without --hosts and -n, which are the launcher's.
std::vector<std::string> withoutLaunch(int argc, char **argv) {
  std::vector<std::string> kept;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool isOurs = false;
    for (std::string flag : {"--hosts", "-n", "--nproc-per-node"}) {
      bool joined = word.compare(0, flag.size() + 1, flag + "=") == 0 ||
                    (flag == "-n" && word.size() > 2 && word.compare(0, 2, "-n") == 0 && std::isdigit(word[2]));
      isOurs |= joined || word == flag;
      i += word == flag;
    }
    if (!isOurs)
      kept.push_back(word);
  }
  return kept;
}

} // namespace

Result<Flags> parseFlags(int argc, char **argv) {
  Parser parser;
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (!parser.help && !parser.helpAll)
      return usage(error.what(), "");
  } catch (const std::exception &error) {
    return usage(error.what(), "");
  }
  if (parser.help || parser.helpAll || parser.version || argc < 2) {
    parser.flags.command = Flags::Command::text;
    parser.flags.text = parser.version   ? "zero-run " ZC_VERSION "\n"
                        : parser.helpAll ? parser.app.help("", CLI::AppFormatMode::All)
                                         : kHelp;
    return std::move(parser.flags);
  }
  const CLI::App *command = &parser.app;
  for (const CLI::App *each : {parser.eval, parser.inspect, parser.exporting, parser.doctor, parser.bench,
                               parser.benchMachine, parser.slurm, parser.checkpoint})
    if (each->parsed())
      command = each;
  std::vector<std::string> extras = parser.app.remaining(true);
  if (!extras.empty())
    return unknownArgument(*command, extras[0]);
  ZC_RETURN_IF_ERROR(checkValues(*command));
  ZC_RETURN_IF_ERROR(complete(parser));
  parser.flags.forwarded = withoutLaunch(argc, argv);
  return std::move(parser.flags);
}

} // namespace zc::run
