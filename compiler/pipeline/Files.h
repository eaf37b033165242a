//===- Files.h - what a compilation writes ------------------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/Stages.h"
#include "runtime/plan/plan.pb.h"

namespace zc {

/// No output is an input, such as the model's external data. Errors: usage.
Status checkFiles(mlir::ModuleOp imported, const CompileOptions &options);

/// The module after `stage`, where --dump-phases-to asks for it. Errors: io.
Status dump(mlir::ModuleOp module, const Stage &stage, const CompileOptions &options);

/// The plan, with its report and what it needs of the model's files, and pages about it, where they are asked for.
/// Errors: io; internal, when the plan does not verify.
Status writeFiles(planpb::Plan &plan, const CompileOptions &options);

} // namespace zc
