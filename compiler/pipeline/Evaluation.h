//===- Evaluation.h - the evaluation beside training -----------------------------------===//
//
// A plan that trains may have an evaluation: the micro-step of the model's forward-only plan, made by the same import
// and the same grad stage, put beside the training step before anything is laid out. From there on every pass treats
// both, so that they agree about buckets, shards, tiers and memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc {

/// Those of a forward-only plan of what `training` trains.
CompileOptions evaluationOptions(const CompileOptions &training);

/// Of what an imported forward-only module returns only the loss stays. Errors: usage, when none is known to be it.
Status keepLoss(mlir::ModuleOp forward, const std::string &model);

/// `training`, after grad, gets the micro-step of `forward`, after grad too, as its program `eval`. Parameters are told
/// by their names; those that training does not read are added. Errors: unsupported, when the two do not fit together.
Status addEvaluation(mlir::ModuleOp training, mlir::ModuleOp forward, const std::string &model);

} // namespace zc
