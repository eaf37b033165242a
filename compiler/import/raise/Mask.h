//===- Mask.h - what an attention mask is known to be ------------------------------===//
#pragma once

#include "mlir/IR/Value.h"

namespace zc::importer {

/// Is a derivative of `value` possibly wanted (it is computed from a float parameter)? Such a mask is a bias to train.
bool dependsOnFloatParameter(mlir::Value value);

/// Nothing is added, or everything kept.
bool hidesNothing(mlir::Value mask);

/// Is it known that each row of a bool mask for [queries, keys] keeps a key? Then what stands for the others is nothing
/// but low.
bool everyRowKeepsOne(mlir::Value mask, int64_t queries, int64_t keys);

/// Does `mask` let query i of `queries` see exactly the keys j <= i + keys - queries? A bool mask, or a float one of 0
/// and numbers below -1e30, whose exponentials are 0 in every float type. Every row keeps at least one key.
bool isCausalMask(mlir::Value mask, int64_t queries, int64_t keys);

} // namespace zc::importer
