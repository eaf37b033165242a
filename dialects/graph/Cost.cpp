//===- Cost.cpp - what an op costs that says nothing better ------------------===//
#include "dialects/graph/Infer.h"

using namespace mlir;

namespace zc::graph {

double defaultFlops(Operation *op) {
  double elements = 0;
  for (Value result : op->getResults())
    elements += double(tensorOf(result).getNumElements());
  return elements;
}

static double bytesOf(Value value) {
  RankedTensorType type = tensorOf(value);
  return double(type.getNumElements()) * ((type.getElementTypeBitWidth() + 7) / 8);
}

double defaultBytes(Operation *op) {
  double bytes = 0;
  for (Value operand : op->getOperands())
    bytes += bytesOf(operand);
  for (Value result : op->getResults())
    bytes += bytesOf(result);
  return bytes;
}

bool mayOverwriteOperand(Operation *op, unsigned index) {
  return op->hasTrait<OverwritesOperands>() && index < op->getNumOperands() &&
         op->getOperand(index).getType() == op->getResult(0).getType();
}

} // namespace zc::graph
