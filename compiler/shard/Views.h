//===- Views.h - chains of views, rebuilt -----------------------------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "mlir/IR/IRMapping.h"

namespace zc {

/// `value`, which shows the bytes of a value that `map` replaces through a chain of views: the chain, rebuilt at
/// `builder` over the replacement, each view once.
inline mlir::Value cloneViews(mlir::OpBuilder &builder, mlir::IRMapping &map, mlir::Value value) {
  if (mlir::Value known = map.lookupOrNull(value))
    return known;
  mlir::Operation *view = value.getDefiningOp();
  cloneViews(builder, map, view->getOperand(0));
  return builder.clone(*view, map)->getResult(0);
}

} // namespace zc
