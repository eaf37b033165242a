//===- MemoryUse.h - which bytes an operation touches ---------------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace zc {

/// Values and who made their bytes. A norm is one buffer that thousands of operations change in turn: whoever asks for
/// each of them in the order of the program remembers here, and none walks all of the chain.
using Makers = llvm::DenseMap<mlir::Value, mlir::Value>;

/// The value that made the bytes of `value`: behind views, and behind results that are their operand, changed in place.
inline mlir::Value madeBy(mlir::Value value, Makers *makers = nullptr) {
  const mlir::Value asked = value = zero::viewedValue(value);
  for (;;) {
    if (mlir::Value known = makers ? makers->lookup(value) : mlir::Value()) {
      value = known;
      break;
    }
    auto op = mlir::dyn_cast_or_null<zero::ScheduledOp>(value.getDefiningOp());
    mlir::Value before = op ? op.getOverwritten(mlir::cast<mlir::OpResult>(value).getResultNumber()) : mlir::Value();
    if (!before)
      break;
    value = zero::viewedValue(before);
  }
  if (makers && value != asked)
    (*makers)[asked] = value;
  return value;
}

/// What several values of the same bytes have in common: a bucket's storage, or the buffer behind all views.
using MemoryObject = std::pair<void *, int64_t>;
inline MemoryObject objectOf(mlir::Value buffer, Makers *makers = nullptr) {
  buffer = madeBy(buffer, makers);
  if (auto storage = buffer.getDefiningOp<zero::StorageOp>())
    return {const_cast<void *>(storage.getBucketAttr().getAsOpaquePointer()), static_cast<int64_t>(storage.getWhat())};
  return {buffer.getAsOpaquePointer(), -1};
}

/// Says `op` only where bytes are?
inline bool isAddress(mlir::Operation *op) {
  auto scheduled = mlir::dyn_cast<zero::ScheduledOp>(op);
  return scheduled && scheduled.getWork().kind == zero::Work::Kind::address;
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
