//===- Flags.cpp - the command line of zero-run ------------------------------------------===//
#include "tools/zero-run/Flags.h"
#include "base/Suggest.h"
#include "tools/CommandLine.h"
#include "tools/zero-run/flags/Command.h"

#include <unistd.h>

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
       zero-run doctor | bench-machine [-o MACHINE | PLAN...] | bench-io DIR [-o MACHINE] | slurm-template

  -n N               ranks, threads of this process        --lr X, --lr-schedule NAME, --warmup N
  --data, --tokens   what to train on                      --save-every K, --resume auto|DIR, --overwrite
  --steps, --epochs  how long                              --weights FILE, --device cpu|cuda, --threads T
  --help-all         every flag                            COMMAND --help: of inspect, eval, export, ...
)";

static const char *const kSeeHelp = "see zero-run --help";

namespace {

struct Parser {
  Flags flags;
  CLI::App app{"zero-run: trains what zero-compile planned", "zero-run"};
  std::vector<std::unique_ptr<Command>> commands; ///< training first, whose flags are the program's
  bool help = false, helpAll = false, version = false;

  Parser();
  Command &given() const;
  std::string helpText() const;
  Result<Flags> read(int argc, char **argv);
};

Parser::Parser() {
  app.set_help_flag();
  app.add_flag("-h,--help", help, "the short help");
  app.add_flag("--help-all", helpAll, "every flag");
  app.add_flag("--version", version, "the version");
  app.allow_extras();
  for (auto make : {trainCommand, evalCommand, inspectCommand, exportCommand, checkpointCommand, doctorCommand,
                    slurmCommand, benchIoCommand, benchMachineCommand})
    commands.push_back(make(app, flags));
  for (auto command = std::next(commands.begin()); command != commands.end(); ++command) {
    CLI::App &own = (*command)->app;
    own.set_help_flag();
    own.add_flag("-h,--help,--help-all", help, "this");
    own.allow_extras();
  }
}

Command &Parser::given() const {
  auto command = std::prev(commands.end());
  while (command != commands.begin() && !(*command)->app.parsed())
    --command;
  return **command;
}

std::string Parser::helpText() const {
  if (const Command &command = given(); !command.example.empty())
    return "  " + command.example + "\n\n" + command.app.help("zero-run");
  return helpAll ? app.help("", CLI::AppFormatMode::All) : kHelp;
}

/// "zero-run inspct g.plan": what stands where a command or the plan does, and is no file, may be meant as a command.
Status checkCommandName(const Parser &parser) {
  const std::string &word = parser.flags.run.plan;
  std::vector<std::string> names;
  for (const CLI::App *command : parser.app.get_subcommands({}))
    names.push_back(command->get_name());
  const std::string meant = nearest(word, names);
  if (&parser.given() != parser.commands.front().get() || meant.empty() || ::access(word.c_str(), F_OK) == 0)
    return Status::success();
  return makeError(Code::usage, 960, "there is no command \"" + word + "\", and no plan of that name", "",
                   "did you mean \"zero-run " + meant + "\"?");
}

/// `extras`: what the parser did not take.
Status checkExtras(const CLI::App &app, const std::vector<std::string> &extras) {
  const std::optional<Untaken> untaken = firstUntaken(extras);
  if (!untaken)
    return Status::success();
  const std::string &name = untaken->name;
  if (!untaken->isFlag)
    return makeError(Code::usage, 961, "unexpected argument \"" + name + "\"", "", kSeeHelp);
  return makeError(Code::usage, 962, "unknown flag \"" + name + "\"", "",
                   adviceOnFlag(name, tool::longFlags(app), "zero-run"));
}

Status checkValues(const CLI::App &app) {
  const std::optional<std::string> flag = tool::flagWithoutValue(app);
  return flag ? makeError(Code::usage, 965, "the value of \"" + *flag + "\" is empty", *flag,
                          "give one, or leave the flag out")
              : Status();
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

Error usageError(std::string message, const std::string &flag) {
  message[0] = char(std::tolower(message[0])); // the parser's begin with a capital
  return makeError(Code::usage, 963, message, flag, kSeeHelp);
}

Result<Flags> Parser::read(int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (!help && !helpAll)
      return usageError(inOurWords(error.what()), "");
  } catch (const std::exception &error) {
    return usageError(error.what(), "");
  }
  if (help || helpAll || version || argc < 2) {
    flags.command = Flags::Command::text;
    flags.text = version ? "zero-run " ZC_VERSION "\n" : helpText();
    return std::move(flags);
  }
  ZC_RETURN_IF_ERROR(checkCommandName(*this));
  Command &command = given();
  ZC_RETURN_IF_ERROR(checkExtras(command.app, app.remaining(true)));
  ZC_RETURN_IF_ERROR(checkValues(command.app));
  ZC_RETURN_IF_ERROR(command.complete());
  flags.command = command.kind;
  flags.forwarded = withoutLaunch(argc, argv);
  return std::move(flags);
}

Result<Flags> parseFlags(int argc, char **argv) {
  Parser parser;
  Result<Flags> flags = parser.read(argc, argv);
  const CLI::App &command = parser.given().app;
  if (flags || flags.error().help != kSeeHelp || &command == &parser.app)
    return flags;
  Error error = flags.error();
  error.help = "see zero-run " + command.get_name() + " --help";
  return error;
}

} // namespace zc::run
