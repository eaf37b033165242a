//===- Flags.h - the command line of zero-compile -----------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"

namespace zc::tool {

struct Flags {
  enum class Command { compile, listParameters, text };
  Command command = Command::compile;
  CompileOptions compile;
  bool explainOffload = false, explainSharding = false;
  bool automatic = false; ///< choose what is not given
  bool dryRun = false, json = false;
  bool explainsOnly = false;      ///< no plan, no report
  std::vector<std::string> mlir;  ///< --mlir-... flags, for MLIR
  std::vector<std::string> notes; ///< for people, on stderr
  std::string text;               ///< of --help, --help-all, --version
};

/// Errors: usage (with the nearest flag), unsupported (a flag whose feature is not there).
Result<Flags> parseFlags(int argc, char **argv);

} // namespace zc::tool
