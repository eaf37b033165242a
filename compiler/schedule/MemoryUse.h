//===- MemoryUse.h - which bytes an operation touches ---------------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace zc {

/// What several values of the same bytes have in common: a bucket's storage, or the buffer behind all views.
using MemoryObject = std::pair<void *, int64_t>;

/// Who made the bytes of values, as long as operations are neither made nor erased. A norm is one buffer that thousands
/// of operations change in turn: the chain is walked once, whoever of them is asked for.
class Makers {
public:
  /// Behind views, and behind results that are their operand, changed in place.
  mlir::Value of(mlir::Value value) {
    value = zero::viewedValue(value);
    llvm::SmallVector<mlir::Value> passed;
    for (;;) {
      if (mlir::Value known = makers.lookup(value)) {
        value = known;
        break;
      }
      auto op = mlir::dyn_cast_or_null<zero::ScheduledOp>(value.getDefiningOp());
      mlir::Value before = op ? op.getOverwritten(mlir::cast<mlir::OpResult>(value).getResultNumber()) : mlir::Value();
      if (!before)
        break;
      passed.push_back(value);
      value = zero::viewedValue(before);
    }
    for (mlir::Value each : passed)
      makers[each] = value;
    return value;
  }

  MemoryObject objectOf(mlir::Value buffer) {
    buffer = of(buffer);
    if (auto storage = buffer.getDefiningOp<zero::StorageOp>())
      return {const_cast<void *>(storage.getBucketAttr().getAsOpaquePointer()),
              static_cast<int64_t>(storage.getWhat())};
    return {buffer.getAsOpaquePointer(), -1};
  }

private:
  llvm::DenseMap<mlir::Value, mlir::Value> makers; ///< of values that another one made
};

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
