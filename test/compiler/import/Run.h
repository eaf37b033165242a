//===- Run.h - runs an imported model on the reference kernels ------------------===//
#pragma once

#include "compiler/import/Import.h"
#include "test/support/Interpreter.h"

namespace zc::test {

/// Reads every parameter of `module` from where its source says, below `folder`.
Status loadParameters(mlir::ModuleOp module, const std::string &folder, Interpreter &interpreter);

/// Plain loops for every kernel.
KernelRegistry referenceKernels(Target target = Target::cpu);

/// Prepared on `kernels`, parameters loaded; inputs are still to be set.
Result<Interpreter> prepareModel(mlir::ModuleOp module, const KernelRegistry &kernels = referenceKernels());

/// Bytes of a tensor constant as kernels lay them out (one byte per bool).
Bytes bytesOf(mlir::ElementsAttr value);

} // namespace zc::test
