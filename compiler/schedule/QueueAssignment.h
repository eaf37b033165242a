//===- QueueAssignment.h - what assign-queues and order say of an operation ---------------------===//
#pragma once

#include "dialects/plan/Plan.h"

namespace zc {

/// Of a program: when each operation is to begin, in their order, the terminator aside. One array of all: each distinct
/// attribute is kept as long as the context, and a start of its own for each of a million operations adds up.
inline constexpr llvm::StringLiteral kStarts = "plan.starts";
/// Of an operation: a #plan.queue, and seconds.
inline constexpr llvm::StringLiteral kQueue = "plan.queue", kSeconds = "plan.seconds";

/// The queue that executes `op`: compute where nothing is said.
inline plan::Queue assignedQueue(mlir::Operation *op) {
  auto queue = mlir::dyn_cast_or_null<plan::QueueAttr>(op->getDiscardableAttr(kQueue));
  return queue ? queue.getValue() : plan::Queue::compute;
}

/// How long it is taken to last; 0 where nothing is said.
inline double assignedSeconds(mlir::Operation *op) {
  auto seconds = mlir::dyn_cast_or_null<mlir::FloatAttr>(op->getDiscardableAttr(kSeconds));
  return seconds ? seconds.getValueAsDouble() : 0;
}

/// Says both: at once, because each set of attributes is kept as long as the context.
inline void assign(mlir::Operation *op, plan::Queue queue, double seconds) {
  mlir::Builder builder(op->getContext());
  mlir::NamedAttrList attributes(op->getRawDictionaryAttrs());
  attributes.set(kQueue, plan::QueueAttr::get(op->getContext(), queue));
  attributes.set(kSeconds, builder.getF64FloatAttr(seconds));
  op->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
}

} // namespace zc
