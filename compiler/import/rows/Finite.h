//===- Finite.h - rows that do not count have gradients of 0 -----------------------===//
//
// No gradient arrives at a row that does not count, but 0 times an infinity is NaN, and the weights that all rows share
// sum over all rows. So these rows stay finite, with their derivatives: what is picked from data that may be infinite
// is replaced where it does not count, and so is what goes into an operation that is not finite for all numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/fold/Constants.h"

namespace zc::importer {

/// Are the elements finite wherever PyTorch's training is? Of inputs nobody knows; a product with a parameter hands an
/// infinity on to the parameter's gradient there too, whether the row counts or not.
bool isFinite(mlir::Value value, const Constants &constants);
/// A number for operand `index` at which `op` is finite with its derivatives; nothing if it is so at all numbers that
/// may arrive.
std::optional<double> harmlessNumber(mlir::Operation *op, unsigned index, const Constants &constants);
/// Does a division go into it by what may be 0, as the number of rows is in a mean where none counts?
bool mayDivideBy0(mlir::Value value, const Constants &constants);

} // namespace zc::importer
