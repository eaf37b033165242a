//===- OperandRoles.cpp - what operands are to a layer, what indices may be ---------------===//
#include "dialects/graph/Infer.h"

using namespace zc::graph;

/// Operand 0 is data, 1 the layer's weight, 2 its bias.
static OperandRole roleInLayer(unsigned index) {
  return index == 0 ? OperandRole::data : index == 1 ? OperandRole::weight : OperandRole::vector;
}
/// Operand 0 is data, 1 the scale, 2 the bias; statistics follow.
static OperandRole roleInNorm(unsigned index) {
  return index == 0 ? OperandRole::data : index < 3 ? OperandRole::vector : OperandRole::statistics;
}

/// Exporters write x W as well as W x.
OperandRole MatmulOp::getOperandRole(unsigned index) { return index < 2 ? OperandRole::weight : OperandRole::vector; }
OperandRole LinearGeluGradOp::getOperandRole(unsigned index) {
  return index < 2 ? OperandRole::weight : OperandRole::data;
}
OperandRole ConvOp::getOperandRole(unsigned index) { return roleInLayer(index); }
OperandRole ConvTransposeOp::getOperandRole(unsigned index) { return roleInLayer(index); }
OperandRole LayerNormOp::getOperandRole(unsigned index) { return roleInNorm(index); }
OperandRole RmsNormOp::getOperandRole(unsigned index) { return roleInNorm(index); }
OperandRole GroupNormOp::getOperandRole(unsigned index) { return roleInNorm(index); }
OperandRole BatchNormOp::getOperandRole(unsigned index) { return roleInNorm(index); }
OperandRole BatchNormApplyOp::getOperandRole(unsigned index) { return roleInNorm(index); }
/// An embedding.
OperandRole GatherOp::getOperandRole(unsigned index) { return index == 0 ? OperandRole::weight : OperandRole::data; }
/// Labels stand before the layer's weight and bias.
OperandRole LinearCrossEntropyOp::getOperandRole(unsigned index) {
  return index == 1 ? OperandRole::data : roleInLayer(index == 0 ? 0 : index - 1);
}
/// Labels and shares do.
OperandRole LinearLogSoftmaxOp::getOperandRole(unsigned index) {
  return index == 1 || index == 2 ? OperandRole::data : roleInLayer(index == 0 ? 0 : index - 2);
}
/// Weights of experts.
OperandRole GatherNdOp::getOperandRole(unsigned index) { return index == 0 ? OperandRole::picked : OperandRole::data; }

/// Negative ones count from the table's end.
std::optional<zc::IndexRange> GatherOp::getIndexRange(unsigned index) {
  const int64_t rows = shapeOf(getData())[getAxis()];
  return index == 1 ? std::optional(zc::IndexRange{-rows, rows, std::nullopt, false}) : std::nullopt;
}

/// The lowest number there is stands for none that is ignored.
static zc::IndexRange labelsOf(int64_t classes, int64_t ignored) {
  return {0, classes, ignored == INT64_MIN ? std::nullopt : std::optional(ignored), true};
}
std::optional<zc::IndexRange> CrossEntropyOp::getIndexRange(unsigned index) {
  return index == 1 ? std::optional(labelsOf(shapeOf(getLogits()).back(), int64_t(getIgnoreIndex()))) : std::nullopt;
}
std::optional<zc::IndexRange> LabelIndexOp::getIndexRange(unsigned) {
  return labelsOf(int64_t(getClasses()), int64_t(getIgnoreIndex()));
}
