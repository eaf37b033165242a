//===- Roles.h - which initializers are trained, and why ----------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/parameters/ParameterBytes.h"
#include "mlir/IR/BuiltinOps.h"

namespace zc::importer {

/// Roles and evidence of all parameters (docs/onnx.md 1.4); after the recognisers have run. Removes those that nothing
/// reads. Doubts are warnings on the parameters.
Status assignRoles(mlir::ModuleOp module, const ImportOptions &options, const Origins &origins,
                   ParameterBytes &parameterBytes);

} // namespace zc::importer
