#include "dialects/graph/Graph.h"
using namespace mlir;
using namespace zc::graph;
LogicalResult NegOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult AbsOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ExpOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult LogOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SqrtOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReciprocalOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SinOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult CosOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult TanhOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SigmoidOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ErfOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReluOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SiluOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult GeluOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult CastOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult AddOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SubOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult MulOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult DivOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult PowOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult MinOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult MaxOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SelectOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReshapeOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult TransposeOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ExpandOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SliceOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ConcatOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult PadOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult GatherOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult GatherElementsOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult GatherNdOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReduceSumOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReduceMeanOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult ReduceMaxOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult MatmulOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult SoftmaxOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult LayerNormOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult RmsNormOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult AttentionOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult CrossEntropyOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
LogicalResult DropoutOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, MutableArrayRef<Value>) {
  return emitOpError("has no gradient yet");
}
