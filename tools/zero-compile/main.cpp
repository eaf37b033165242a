//===- main.cpp - zero-compile -----------------------------------------------------------===//

#include "base/Program.h"
#include "base/StandardStreams.h"
#include "compiler/import/base/Errors.h"
#include "compiler/pipeline/Auto.h"
#include "compiler/pipeline/Driver.h"
#include "compiler/pipeline/Explain.h"
#include "runtime/io/OutputFile.h"
#include "tools/zero-compile/Flags.h"

#include <climits>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace zc;
using namespace zc::tool;

static void tell(const std::string &text) { (void)io::writeOn(STDERR_FILENO, text); }

static void printWarnings(const CompileResult &result) {
  for (const std::string &warning : result.warnings)
    tell(warning + "\n");
}

static Status printParameters(const Flags &flags) {
  const CompileOptions &options = flags.compile;
  Result<CompileResult> listed = listParameters(options);
  if (!listed && listed.error().number == importer::unboundDims) {
    // Names, types and roles do not depend on the sizes. Where the graph does, what is missing is said.
    CompileOptions guess = options;
    guess.import.anySize = true;
    if (Result<CompileResult> guessed = listParameters(guess); guessed || guessed.error().code == Code::usage)
      listed = std::move(guessed); // a flag that is wrong is so whatever the sizes
  }
  if (!listed)
    return listed.error();
  printWarnings(*listed);
  return io::writeToStdout(flags.json ? listed->parameterJson : listed->parameterTable);
}

/// Beside a report or a plan: JSON and a plan are alone on their stream.
static Status printTable(const Flags &flags, const std::string &table) {
  if (!flags.json && flags.compile.output != "-")
    return io::writeToStdout(table);
  tell(table);
  return Status::success();
}

static Status printCompiled(const Flags &flags) {
  CompileOptions options = flags.compile;
  if (flags.automatic) {
    Result<AutoChoice> choice = chooseFastest(options);
    if (!choice)
      return choice.error();
    tell("note: --auto " + choice->text + "\n");
    options = choice->options;
  }
  if (flags.dryRun)
    options.output.clear();
  options.findSmallest = flags.dryRun && !flags.json;
  Result<CompileResult> result = compile(options);
  if (!result)
    return result.error();
  printWarnings(*result);
  if (options.stopAfter != Phase::emit) {
    if (!flags.compile.output.empty() && flags.compile.output != "-")
      return io::writeFileAtomically(flags.compile.output, result->ir);
    return io::writeToStdout(result->ir);
  }
  if (options.output == "-")
    return io::writeToStdout(result->plan);
  if (flags.dryRun || flags.json)
    return io::writeToStdout(flags.json ? result->reportJson + "\n" : result->reportTable);
  return Status::success();
}

static Status run(const Flags &flags) {
  if (flags.command == Flags::Command::text)
    return io::writeToStdout(flags.text);
  for (const std::string &note : flags.notes)
    tell("note: " + note + "\n");
  ZC_RETURN_IF_ERROR(setMlirFlags(flags.mlir));
  if (flags.command == Flags::Command::listParameters)
    return printParameters(flags);
  if (flags.explainOffload) {
    Result<std::string> table = explainOffload(flags.compile);
    if (!table)
      return table.error();
    ZC_RETURN_IF_ERROR(printTable(flags, *table));
  }
  if (flags.explainSharding) {
    Result<CompileResult> explained = explainSharding(flags.compile);
    if (!explained)
      return explained.error();
    ZC_RETURN_IF_ERROR(printTable(flags, explained->shardingTable));
  }
  return flags.explainsOnly ? Status::success() : printCompiled(flags);
}

static Status start(int argc, char **argv) {
  Result<Flags> flags = parseFlags(argc, argv);
  if (!flags)
    return flags.error();
  Status status = run(*flags);
  return status.ok() ? status : flags->compile.config.located(status.error());
}

int main(int argc, char **argv) {
  // Stages give back what the next ones take again: of large models the system would clear each page anew. Under a
  // limit of addresses there is none to spare.
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY) {
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 64 << 20);
  }
  guardStandardStreams();
  Status status = runGuarded("zero-compile", [&] { return start(argc, argv); });
  if (status.ok())
    return 0;
  tell(render(status.error()) + "\n");
  return static_cast<int>(status.error().code);
}
