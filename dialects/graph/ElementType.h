//===- ElementType.h - element types as the runtime names them ----------------===//
#pragma once

#include "base/Tensor.h"
#include "mlir/IR/Types.h"

#include <optional>

namespace zc::graph {

/// Nothing for element types that no tensor of this project has.
std::optional<zc::DType> dtypeOf(mlir::Type element);

} // namespace zc::graph
