//===- KernelSpec.h - what an op's kernel is prepared from --------------------===//
#pragma once

#include "dialects/graph/ElementType.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/KernelAttributes.h"
#include "kernels/Workspace.h"

namespace zc::graph {

/// Element type and shape as the runtime names them. Fails, without a report, for what no tensor of this level has.
mlir::FailureOr<zc::TensorType> toTensorType(mlir::Type type);

/// One of an op's kernelAttributes as a kernel reads it: integers, bools and unit as int64, floats as double, arrays of
/// i64, strings, and elements as their bytes. Fails, without a report, for any other.
mlir::FailureOr<zc::Attribute> toKernelAttribute(mlir::Attribute attribute);

/// Name, operand types (inputs, then results) and attributes of an op that has a kernel; the caller adds threads, rank,
/// world size and seed. Fails after an error on the op.
mlir::FailureOr<zc::KernelSpec> toKernelSpec(mlir::Operation *op);

/// What the op's kernel can keep of an operand (kernels/Workspace.h); of no bytes for kernels that are not of this
/// project.
zc::KeptInput keptInput(mlir::Operation *op, zc::Target target);

} // namespace zc::graph
