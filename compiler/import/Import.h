//===- Import.h - an ONNX file becomes a graph module --------------------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace zc::importer {

/// The module: `graph.parameter`s and the program `@micro`, which returns the loss (tensor<f32>). With `forwardOnly` it
/// returns outputs of any type, with their names in `zc.output_names` and the index of the loss, if one of them is it,
/// in `zc.loss_output`.
///
/// A model that brings its own update rule (training artifacts, training_info) gives it as `zc.own_optimizer`: a
/// dictionary of rule, beta1, beta2, eps, momentum, weight_decay, max_norm, from, and where they hold lr,
/// eps_uncorrected, sums_gradients.
///
/// Module attributes: `zc.model_path` (absolute), `zc.model_bytes`, `zc.model_hash` (XXH3-64, i64). Errors: bad input
/// (the file), unsupported (all operators without a handler at once), usage (unbound dimensions, no or several losses).
Result<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, const std::string &path,
                                                     const ImportOptions &options = {});

/// The table of --list-parameters: name, dtype, shape, role, tied names, evidence; one line per parameter and a sum.
std::string listParameters(mlir::ModuleOp module);

/// What the module was made from: the model's file and those that its parameters lie in.
std::vector<std::string> filesOf(mlir::ModuleOp module);

} // namespace zc::importer
