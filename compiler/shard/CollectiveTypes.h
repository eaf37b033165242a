//===- CollectiveTypes.h - types of quantized and of gathered buffers ---------------------===//
#pragma once

#include "dialects/zero/Zero.h"
#include "kernels/Quantized.h"

namespace zc {

/// The data axes of a mesh, as ZeRO++ sees them: inside the nodes and between them.
struct NodeGrid {
  int64_t nodes = 1, local = 1;
  mlir::ArrayAttr between, inside; ///< groups, for collectives
};
/// That of the module's mesh; its absence is an error, emitted.
inline mlir::FailureOr<NodeGrid> gridOf(mlir::ModuleOp module, llvm::StringRef pass) {
  if (module.getOps<zero::MeshOp>().empty())
    return module.emitError() << pass << " needs a zero.mesh";
  const Mesh mesh = zero::meshOf(module);
  AxisSet between = mesh.nodeAxes() & mesh.dataAxes(), inside = mesh.dataAxes() & ~mesh.nodeAxes();
  return NodeGrid{mesh.size(between), mesh.size(inside), zero::namesOf(module.getContext(), between, mesh),
                  zero::namesOf(module.getContext(), inside, mesh)};
}

/// A buffer of `elements` elements like `type`.
inline zero::BufferType resized(zero::BufferType type, int64_t elements) {
  return zero::BufferType::get(type.getContext(), elements, type.getElementType(), type.getTier());
}

/// `count` quantized pieces, on the tier of `plain`.
inline zero::BufferType quantizedType(zero::BufferType plain, int64_t count, const QuantizedPiece &piece) {
  auto byte = mlir::IntegerType::get(plain.getContext(), 8, mlir::IntegerType::Unsigned);
  return zero::BufferType::get(plain.getContext(), count * piece.bytes(), byte, plain.getTier());
}

/// What kernels quantize; others are an error, emitted at `op`.
inline mlir::LogicalResult checkQuantizable(mlir::Operation *op, zero::BufferType type) {
  if (type.getElementType().isF32() || type.getElementType().isBF16() || type.getElementType().isF16())
    return mlir::success();
  return op->emitError() << "elements of type " << type.getElementType()
                         << " cannot be quantized, only f32, bf16 and f16";
}

} // namespace zc
