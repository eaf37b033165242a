//===- KernelSpec.h - what an op's kernel is prepared from --------------------===//
#pragma once

#include "dialects/graph/ElementType.h"
#include "dialects/graph/Graph.h"
#include "kernels/Kernel.h"

namespace zc::graph {

/// Element type and shape as the runtime names them. Fails, without a report, for what no tensor of this level has.
mlir::FailureOr<zc::TensorType> toTensorType(mlir::Type type);

/// An attribute as a kernel reads it: integers, bools and unit as int64, floats as double, arrays of i64 and views,
/// strings. Fails, without a report, for any other.
mlir::FailureOr<zc::Attribute> toKernelAttribute(mlir::Attribute attribute);

/// Name, operand types (inputs, then results) and attributes of an op that has a kernel; the caller adds threads, rank,
/// world size and seed. Types as attributes are left out: the operands tell. A constant has `value` if it is a splat,
/// else `data`, the elements' bytes, little endian, a byte per bool. Fails after an error on the op.
mlir::FailureOr<zc::KernelSpec> toKernelSpec(mlir::Operation *op);

/// The elements' bytes as a kernel sees them.
std::string elementBytes(mlir::DenseElementsAttr elements);

} // namespace zc::graph
