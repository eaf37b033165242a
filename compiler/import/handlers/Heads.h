//===- Heads.h - what attention operators of all domains share ---------------------===//
#pragma once

#include "compiler/import/handlers/Expr.h"

namespace zc::importer {

/// [batch, length, heads * size] -> [batch, heads, length, size]. Null after an error.
mlir::Value splitHeads(Node &node, mlir::Value x, int64_t heads);
/// Back.
mlir::Value joinHeads(Node &node, mlir::Value x);
/// What is added to scores of [..., queries, keys]: -inf where a key comes after its query, of which `first` is the
/// place of the first among the keys.
Expr causalBias(Node &node, Expr scores, int64_t first);

} // namespace zc::importer
