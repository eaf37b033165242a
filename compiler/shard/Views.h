//===- Views.h - values through chains of views ---------------------------------------===//
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

/// Uses of a value that forward makes, and of views of it, by operations that are no views.
struct HalvesUses {
  mlir::Operation *lastForward = nullptr; ///< what makes it, where nothing else uses it there
  llvm::SmallVector<mlir::OpOperand *> backward;

  /// `border`: behind it backward begins.
  HalvesUses(mlir::Value value, mlir::Operation *border) : lastForward(value.getDefiningOp()) {
    llvm::SmallVector<mlir::Value> aliases{value};
    while (!aliases.empty())
      for (mlir::OpOperand &use : aliases.pop_back_val().getUses()) {
        mlir::Operation *user = use.getOwner();
        if (zero::isView(user))
          aliases.push_back(user->getResult(0));
        else if (border->isBeforeInBlock(user))
          backward.push_back(&use);
        else if (lastForward->isBeforeInBlock(user))
          lastForward = user;
      }
  }

  /// The first that is backward; there is one.
  mlir::Operation *firstBackward() const {
    mlir::Operation *first = backward.front()->getOwner();
    for (mlir::OpOperand *use : backward)
      first = use->getOwner()->isBeforeInBlock(first) ? use->getOwner() : first;
    return first;
  }

  /// Backward reads `other` instead of `value`; views of it are made at `builder`.
  void readInstead(mlir::OpBuilder &builder, mlir::Value value, mlir::Value other) const {
    mlir::IRMapping map;
    map.map(value, other);
    for (mlir::OpOperand *use : backward)
      use->set(cloneViews(builder, map, use->get()));
  }
};

} // namespace zc
