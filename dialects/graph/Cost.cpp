//===- Cost.cpp - views, and what an op costs that says nothing better ------------------===//
#include "dialects/graph/View.h"

using namespace mlir;

namespace zc::graph {

double defaultFlops(Operation *op) {
  double elements = 0;
  for (Value result : op->getResults())
    elements += double(tensorOf(result).getNumElements());
  return elements;
}

bool isView(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && kernel.getViewOperand() >= 0;
}

Value viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    value = op->getOperand(static_cast<unsigned>(cast<KernelOp>(op).getViewOperand()));
  }
  return value;
}

double defaultBytes(Operation *op) {
  if (auto strided = dyn_cast<Strided>(op))
    if (ViewsAttr views = strided.getViewsAttr())
      return bytesSeen(op, views);
  double bytes = 0;
  llvm::SmallDenseSet<Value> read;
  for (Value operand : op->getOperands())
    bytes += read.insert(operand).second ? double(bytesOf(tensorOf(operand))) : 0;
  for (Value result : op->getResults())
    bytes += double(bytesOf(tensorOf(result)));
  return bytes;
}

double bytesOfPicked(Value from, Value result) {
  const auto picked = double(bytesOf(tensorOf(result)));
  return std::min(picked, double(bytesOf(tensorOf(from)))) + picked;
}

bool mayOverwriteOperand(Operation *op, unsigned index, unsigned result) {
  return op->hasTrait<OverwritesOperands>() && index < op->getNumOperands() &&
         op->getOperand(index).getType() == op->getResult(result).getType() && isSeenWhole(op, index) &&
         isSeenWhole(op, op->getNumOperands() + result);
}

Value computedOver(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto kernel = result ? dyn_cast<KernelOp>(result.getOwner()) : KernelOp();
  if (!kernel || isView(kernel))
    return {};
  for (OpOperand &operand : kernel->getOpOperands()) {
    Value below = operand.get();
    Operation *producer = below.getDefiningOp();
    if (below.getType() == value.getType() && below.hasOneUse() && isa_and_nonnull<KernelOp>(producer) &&
        !isView(producer) && kernel.mayOverwrite(operand.getOperandNumber(), result.getResultNumber()))
      return below;
  }
  return {};
}

} // namespace zc::graph
