//===- Gradient.h - helpers of the derivatives --------------------------------===//
//
// Formulas: ONNX specification and torch's derivatives.yaml; all are tested against finite differences
// (test/compiler/grad).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Infer.h"

/// Heads the definition of an op's gradient.
#define ZC_GRADIENT(OpTy)                                                                                              \
  mlir::LogicalResult OpTy::buildGradient(mlir::OpBuilder &builder, mlir::ValueRange resultGrads,                      \
                                          llvm::ArrayRef<bool> wanted,                                                 \
                                          llvm::MutableArrayRef<mlir::Value> operandGrads)

namespace zc::graph {

/// Emits ops at one location.
class TensorBuilder {
public:
  TensorBuilder(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  /// The first result of a new OpTy.
  template <typename OpTy, typename... Args> mlir::Value make(Args &&...args) {
    return create<OpTy>(std::forward<Args>(args)...)->getResult(0);
  }
  template <typename OpTy, typename... Args> OpTy create(Args &&...args) {
    return builder.create<OpTy>(location, std::forward<Args>(args)...);
  }

  mlir::Value add(mlir::Value lhs, mlir::Value rhs) { return make<AddOp>(lhs, rhs); }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) { return make<SubOp>(lhs, rhs); }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) { return make<MulOp>(lhs, rhs); }
  mlir::Value div(mlir::Value lhs, mlir::Value rhs) { return make<DivOp>(lhs, rhs); }
  mlir::Value neg(mlir::Value value) { return make<NegOp>(value); }
  mlir::Value less(mlir::Value lhs, mlir::Value rhs) { return make<LessOp>(lhs, rhs); }
  mlir::Value select(mlir::Value condition, mlir::Value lhs, mlir::Value rhs) {
    return make<SelectOp>(condition, lhs, rhs);
  }
  mlir::Value scale(mlir::Value value, double factor) { return mul(value, scalar(factor, value)); }
  /// A scalar of `like`'s element type.
  mlir::Value scalar(double value, mlir::Value like);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value expand(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value reduceSum(mlir::Value value, llvm::ArrayRef<int64_t> axes, bool keepdims);
  /// Dimension `axis` as so many parts, the last first: reshape, slice, reshape.
  mlir::Value turnParts(mlir::Value value, int64_t axis, int64_t parts);
  /// Sums a gradient over the dimensions in which an operand of `shape` was broadcast.
  mlir::Value unbroadcast(mlir::Value grad, llvm::ArrayRef<int64_t> shape);
  mlir::Value unbroadcast(mlir::Value grad, mlir::Value operand) { return unbroadcast(grad, shapeOf(operand)); }

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
};

//===-- attention as plain operations -------------------------------------------===//

/// [B, Hk, L, D] with every head repeated for the queries that share it: [B, H, L, D].
mlir::Value repeatHeads(TensorBuilder &on, mlir::Value value, int64_t heads);
/// Scores, of products of queries and keys, before they are masked.
mlir::Value scaledScores(TensorBuilder &on, AttentionOp op, mlir::Value products);
/// [queries, keys], bool: what `causal` and `window` mask. Null where they mask nothing.
mlir::Value keysOutOfPlace(TensorBuilder &on, AttentionOp op);

/// Emits gradient ops at the location of the forward op: a gradient is what stands behind graph.backward.
class GradientBuilder : public TensorBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Operation *forward) : TensorBuilder(builder, forward->getLoc()) {}
};

/// Fails, with an error on the op, if a gradient arrives at a result other than the first.
mlir::LogicalResult onlyFirstResult(mlir::Operation *op, mlir::ValueRange resultGrads);

} // namespace zc::graph
