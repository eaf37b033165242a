//===- Import.h - an ONNX file becomes a graph module --------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/import/base/Options.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>
#include <vector>

namespace zc::importer {

/// The module: `graph.parameter`s and the program `@micro`, which returns the loss (tensor<f32>). With `forwardOnly` it
/// returns outputs of any type, and says by `graph.outputs` what each is.
///
/// Module attributes (dialects/graph/ModuleAttrs.h): `graph.model` with an absolute path and the file's XXH3-64; where
/// the model brings its own update rule (training artifacts, training_info), `graph.training` with that. Errors: bad
/// input (the file), unsupported (all operators without a handler at once), usage (unbound dimensions, no or several
/// losses).
Result<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, const std::string &path,
                                                     const ImportOptions &options = {});

/// The symbolic dimension that the model's inputs begin with, where it is one and has no size yet. Errors: of a file
/// that is no model.
Result<std::optional<std::string>> openBatch(const std::string &path, const ImportOptions &options);

/// The table of --list-parameters: name, dtype, shape, role, tied names, evidence; one line per parameter and a sum.
std::string listParameters(mlir::ModuleOp module);
/// The same as an array of objects: name, dtype, shape, role, trainable, tied (names), evidence or null.
std::string parametersAsJson(mlir::ModuleOp module);

/// What the module was made from: the model's file and those that its parameters lie in.
std::vector<std::string> filesOf(mlir::ModuleOp module);

} // namespace zc::importer
