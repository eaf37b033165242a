//===- Cuts.h - where one block of a model ends and the next begins ---------------------===//
#pragma once

#include "mlir/IR/Operation.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace zc {

/// The last of the operations with an index below `end` that needs `value`, itself or a view of it; 0 if none does.
size_t lastUse(mlir::Value value, const llvm::DenseMap<mlir::Operation *, size_t> &indices, size_t end);

/// Positions in (begin, end) of `operations`, which stand in a block in this order, where the fewest bytes of what
/// [begin, end) makes are still needed later in it: only the residual stream crosses there, in backward its gradient.
/// The most common such minimum is the stream's. Ascending; none in what has no blocks.
std::vector<size_t> streamCuts(llvm::ArrayRef<mlir::Operation *> operations, size_t begin, size_t end);

} // namespace zc
