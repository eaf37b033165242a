//===- Infer.h - result types from operands, with labelled errors ------------===//
//
// Helpers of the `inferReturnTypes` definitions. Every failure is reported at the op's location as
// "[label] message"; the labels stand in the descriptions of the .td files.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

/// Heads the definition of an op's result types (and with that, of its verifier).
#define ZC_INFER(OpTy)                                                                                                 \
  mlir::LogicalResult OpTy::inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location> location,              \
                                             Adaptor adaptor, mlir::SmallVectorImpl<mlir::Type> &types)

namespace zc::graph {

using Shape = llvm::SmallVector<int64_t, 6>;

inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return tensorOf(value).getShape(); }
inline mlir::Type elementOf(mlir::Value value) { return tensorOf(value).getElementType(); }

/// "2x3", "scalar" for rank 0.
std::string toText(llvm::ArrayRef<int64_t> shape);
std::string toText(mlir::Type type);

/// Statistics of `element` are kept in f32, those of f64 in f64.
mlir::Type statisticsType(mlir::Type element);

/// The numpy broadcast of two shapes, or nothing.
std::optional<Shape> broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

/// Collects result types; the checks return failure after reporting.
class Infer {
public:
  Infer(std::optional<mlir::Location> location, mlir::SmallVectorImpl<mlir::Type> &types)
      : location(location), types(types) {}

  mlir::LogicalResult error(const llvm::Twine &message) const { return mlir::emitOptionalError(location, message); }
  /// Appends a result type. [shape_c1]: no negative dimension; [shape_c2]: fewer than 2^48 elements;
  /// [shape_c3]: an element type a tensor can have.
  mlir::LogicalResult result(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// The checks alone.
  mlir::LogicalResult checkTensor(llvm::ArrayRef<int64_t> shape, mlir::Type element) const;
  mlir::LogicalResult result(mlir::Type type) { return types.push_back(type), mlir::success(); }

  /// [element_c1]: two operands have one element type.
  mlir::LogicalResult sameElement(mlir::Value lhs, mlir::Value rhs) const {
    return sameElement(tensorOf(lhs), tensorOf(rhs));
  }
  mlir::LogicalResult sameElement(mlir::RankedTensorType lhs, mlir::RankedTensorType rhs) const;
  /// [axis_c1]: 0 <= axis < rank.
  mlir::LogicalResult axisInRank(int64_t axis, int64_t rank) const;
  /// [random_c2]: run and stride of a rank's part of what random numbers are drawn for.
  mlir::LogicalResult numbersOfPart(std::optional<uint64_t> run, std::optional<uint64_t> stride) const;
  /// `label`: what `name` has shape `expected`.
  mlir::LogicalResult hasShape(llvm::StringRef label, llvm::StringRef name, mlir::Value value,
                               llvm::ArrayRef<int64_t> expected) const;
  /// `label`: what `name` has type `expected`.
  mlir::LogicalResult hasType(llvm::StringRef label, llvm::StringRef name, mlir::Value value,
                              mlir::Type expected) const {
    return isType(label, name, value.getType(), expected);
  }
  mlir::LogicalResult isType(llvm::StringRef label, llvm::StringRef name, mlir::Type type, mlir::Type expected) const;

private:
  std::optional<mlir::Location> location;
  mlir::SmallVectorImpl<mlir::Type> &types;
};

} // namespace zc::graph
