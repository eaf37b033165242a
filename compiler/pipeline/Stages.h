//===- Stages.h - one stage after the other -------------------------------------------===//
//
// A stage takes a module and leaves it on the next level: a pass manager each, with a border that is verified.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/Fit.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc {

struct Stage {
  Phase phase;
  const char *name;
  Code failure; ///< what a failing pass of the stage means when nothing says better
  int number;
};
/// All from import, which has no passes, to the plan's level.
inline constexpr Stage kStages[] = {{Phase::import, "import", Code::badInput, 300},
                                    {Phase::grad, "grad", Code::unsupported, 301},
                                    {Phase::shard, "shard", Code::usage, 302},
                                    {Phase::schedule, "schedule", Code::internal, 303},
                                    {Phase::plan, "plan", Code::internal, 304}};

/// What goes from stage to stage beside the module.
struct StageContext {
  const CompileOptions &options;
  const Strategy &strategy;           ///< what the stages are told
  const DiagnosticCollector &emitted; ///< what is emitted meanwhile
  mlir::ModuleOp evaluation;          ///< forward-only, after grad; null: none is asked for
  bool isTrial = false; ///< only what memory it takes is asked: not verified, nor shown by MLIR's own flags
};

/// `stage` of `module`. Errors: those of the passes, with the stage's code; budget, of a plan that does not fit.
Status runStage(const Stage &stage, mlir::ModuleOp module, const StageContext &context);

/// What a plan of `imported`, which stays as it is, takes by `strategy`, over budget or not. Errors: of a stage.
Result<Planned> planMemory(mlir::ModuleOp imported, mlir::ModuleOp evaluation, const CompileOptions &options,
                           const Strategy &strategy);

} // namespace zc
