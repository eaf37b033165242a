//===- Register.h - every dialect and pass of this project --------------------===//
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace zc {

/// The dialects of all levels.
void registerAllDialects(mlir::DialectRegistry &registry);
/// The passes and stage pipelines of all stages, and MLIR's canonicalize, cse and symbol-dce.
void registerAllPasses();

} // namespace zc
