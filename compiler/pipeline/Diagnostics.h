//===- Diagnostics.h - MLIR diagnostics as errors --------------------------------------===//
#pragma once

#include "base/Status.h"

#include "mlir/IR/Diagnostics.h"

#include <string>
#include <vector>

namespace zc {

/// Name of the ONNX node behind a location; empty if unknown.
std::string nodeNameOf(mlir::Location location);

/// Collects what is emitted while it lives: the first error, and all warnings and remarks.
class DiagnosticCollector {
public:
  DiagnosticCollector(mlir::MLIRContext &context, std::string model);

  /// The first error as `code`; a text that says none was emitted, if so.
  Error error(Code code, int number) const;
  std::vector<std::string> warnings;

private:
  std::string where(mlir::Location location) const;

  std::string model, message, place, note;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace zc
