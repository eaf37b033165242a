//===- Flags.h - the command line of zero-run -----------------------------------------------------===//
#pragma once

#include "runtime/train/Options.h"

#include <string>
#include <vector>

namespace zc::run {

/// Everything the command line says.
struct Flags {
  enum class Command { train, inspect, exportWeights, doctor, benchIo, text };
  Command command = Command::train;
  train::RunOptions run;
  // What people see.
  int64_t logEvery = 1;
  bool quiet = false;
  bool jsonLog = false;
  // inspect
  bool wholeText = false;
  // export
  std::string checkpoint, onnx, safetensors, model;
  // text: help or version, to be printed as it is
  std::string text;
};

/// Errors: usage, with the nearest known flag as help.
Result<Flags> parseFlags(int argc, char **argv);

} // namespace zc::run
