//===- Assigned.h - what assign-queues and order say of an operation ---------------------===//
#pragma once

#include "dialects/plan/Plan.h"

namespace zc {

/// The queue that executes `op`: compute where nothing is said.
inline plan::Queue assignedQueue(mlir::Operation *op) {
  auto queue = op->getAttrOfType<plan::QueueAttr>("plan.queue");
  return queue ? queue.getValue() : plan::Queue::compute;
}

/// How long it is taken to last; 0 where nothing is said.
inline double assignedSeconds(mlir::Operation *op) {
  auto seconds = op->getAttrOfType<mlir::FloatAttr>("plan.seconds");
  return seconds ? seconds.getValueAsDouble() : 0;
}

/// Says both: at once, because each set of attributes is kept as long as the context.
inline void assign(mlir::Operation *op, plan::Queue queue, double seconds) {
  mlir::Builder builder(op->getContext());
  mlir::NamedAttrList attributes(op->getDiscardableAttrDictionary());
  attributes.set("plan.queue", plan::QueueAttr::get(op->getContext(), queue));
  attributes.set("plan.seconds", builder.getF64FloatAttr(seconds));
  op->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
}

} // namespace zc
