//===- Driver.h - from an ONNX file to a plan --------------------------------------===//
//
// What zero-compile calls. No MLIR in this header: tools link the driver without compiling against it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/StateSize.h"

#include <string>
#include <vector>

namespace zc {

/// What a compilation gives besides the plan file.
struct CompileResult {
  std::string parameterTable; ///< of --list-parameters
  std::string parameterJson;  ///< of listParameters
  std::string reportJson, reportTable;
  std::string shardingTable;         ///< of --explain-sharding
  double predictedSeconds = 0;       ///< of a step
  size_t operations = 0;             ///< of the imported model: what a compilation costs grows with them
  StateSize state;                   ///< of listParameters
  std::string ir;                    ///< the module as text when it stopped before emit
  std::string plan;                  ///< the plan file's bytes, where the output is "-"
  std::vector<std::string> warnings; ///< rendered, in order
};

/// Compiles. With budgets, sizes that no flag sets are tuned to them (Fit.h). Errors carry the exit code of the README:
/// bad input, unsupported, usage, budget, io, internal.
Result<CompileResult> compile(const CompileOptions &options);

/// The parameters of a model (`parameterTable`, `operations`, `state`, `warnings`), without compiling it.
Result<CompileResult> listParameters(const CompileOptions &options);

/// What --tensor-parallel cuts of a model (`shardingTable`, `warnings`), without compiling it: also where that is
/// nothing. Errors: usage, of no ranks that share samples.
Result<CompileResult> explainSharding(const CompileOptions &options);

/// Whether an MLIR flag is one whose value may be the next word: "--mlir-elide-elementsattrs-if-larger".
bool mlirFlagTakesValue(const std::string &flag);
/// MLIR's own flags ("--mlir-print-ir-after-all", "--mlir-timing"): call once, before compile. Errors: usage.
Status setMlirFlags(const std::vector<std::string> &flags);

} // namespace zc
