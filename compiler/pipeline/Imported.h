//===- Imported.h - a model as the stages take it -----------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/Fit.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace zc {

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ModelSize size;
};

/// The model, with what the plan will say of it: name, command, target, the machine's rates. `strategy` is completed by
/// what follows from the model: its own update rule, the usual chunk. Errors: those of importOnnx and of a machine's
/// file; usage, when it has other rows than the configuration speaks of.
Result<ImportedModel> importModel(mlir::MLIRContext &context, const CompileOptions &options, Strategy &strategy);

/// With --with-eval, else null: the model once more, as a forward-only plan imports it (another dropout, other norms),
/// through its grad stage. What is to be said of the model has been said.
Result<mlir::OwningOpRef<mlir::ModuleOp>> importEvaluation(mlir::MLIRContext &context, const CompileOptions &training);

} // namespace zc
