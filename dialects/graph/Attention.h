//===- Attention.h - the gradient of what attention adds to its scores ---------------------===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace zc::graph {

/// Noted on a graph.attention_grad that gives the gradient of its mask too. No kernel's attribute: kernels count
/// results.
inline constexpr llvm::StringLiteral kMaskGrad = "graph.mask_grad";

/// Can a mask that is added to scores of [queries, keys] have its gradient there? (`attention_c9`)
bool hasMaskGradient(mlir::RankedTensorType mask, int64_t queries, int64_t keys);

} // namespace zc::graph
