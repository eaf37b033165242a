//===- MemoryUse.h - which bytes an operation touches ---------------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace zc {

/// What several values of the same bytes have in common: a bucket's storage, or the buffer behind all views.
using MemoryObject = std::pair<void *, int64_t>;
inline MemoryObject objectOf(mlir::Value buffer) {
  buffer = zero::viewedValue(buffer);
  if (auto storage = buffer.getDefiningOp<zero::StorageOp>())
    return {const_cast<void *>(storage.getBucketAttr().getAsOpaquePointer()), static_cast<int64_t>(storage.getWhat())};
  return {buffer.getAsOpaquePointer(), -1};
}

/// Does `op` change or end the bytes of `operand`?
inline bool mutates(mlir::Operation *op, mlir::Value operand) {
  auto interface = mlir::dyn_cast<mlir::MemoryEffectOpInterface>(op);
  llvm::SmallVector<mlir::MemoryEffects::EffectInstance> effects;
  if (interface)
    interface.getEffectsOnValue(operand, effects);
  return llvm::any_of(effects,
                      [](const auto &effect) { return !mlir::isa<mlir::MemoryEffects::Read>(effect.getEffect()); });
}

} // namespace zc
