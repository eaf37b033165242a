//===- Expr.h - formulas in handlers --------------------------------------------===//
#pragma once

#include "compiler/import/node/Node.h"

namespace zc::importer {

/// A value with arithmetic: `x * sigmoid(x) + 1`. Numbers become constants of the other side's element type. After an
/// error all results are null, as those of Node::make.
class Expr {
public:
  Expr(Node &node, mlir::Value value) : node(&node), value(value) {}
  operator mlir::Value() const { return value; }
  explicit operator bool() const { return bool(value); }
  mlir::Type element() const { return elementOf(value); }

  template <typename OpT> Expr apply() const { return {*node, value ? node->make<OpT>({value}) : mlir::Value()}; }
  template <typename OpT> Expr apply(mlir::Value other) const {
    return {*node, value && other ? node->make<OpT>({value, other}) : mlir::Value()};
  }
  template <typename OpT> Expr apply(double other) const { return apply<OpT>(number(other)); }
  Expr number(double x) const { return {*node, value ? node->scalar(x, element()) : mlir::Value()}; }
  /// This where `condition` holds, `other` elsewhere.
  Expr where(mlir::Value condition, mlir::Value other) const {
    return {*node,
            value && condition && other ? node->make<graph::SelectOp>({condition, value, other}) : mlir::Value()};
  }
  Expr reshape(llvm::ArrayRef<int64_t> shape) const {
    return {*node, value ? node->reshape(value, shape) : mlir::Value()};
  }
  /// The same value, which no gradient goes through.
  Expr detached() const {
    return {*node, value ? node->make<graph::BitcastOp>({value}, node->attrs().type("to", element())) : mlir::Value()};
  }
  Expr cast(mlir::Type to) const { return {*node, value ? node->cast(value, to) : mlir::Value()}; }

private:
  Node *node;
  mlir::Value value;
};

#define ZC_EXPR_OPERATOR(SIGN, OP)                                                                                     \
  inline Expr operator SIGN(Expr a, Expr b) { return a.apply<graph::OP>(b); }                                          \
  inline Expr operator SIGN(Expr a, double b) { return a.apply<graph::OP>(b); }                                        \
  inline Expr operator SIGN(double a, Expr b) { return b.number(a).apply<graph::OP>(b); }
ZC_EXPR_OPERATOR(+, AddOp)
ZC_EXPR_OPERATOR(-, SubOp)
ZC_EXPR_OPERATOR(*, MulOp)
ZC_EXPR_OPERATOR(/, DivOp)
#undef ZC_EXPR_OPERATOR
inline Expr operator-(Expr a) { return a.apply<graph::NegOp>(); }

/// What is computed of reals; integers as doubles, of which results are truncated.
inline Expr real(Node &node, mlir::Value x) {
  return isFloat(x) ? Expr(node, x) : Expr(node, x).cast(mlir::Float64Type::get(node.loc.getContext()));
}

/// Products of matrices, batched, as matmul's; of integers, which it does not take, as sums of products.
inline mlir::Value matrixProduct(Node &node, mlir::Value lhs, mlir::Value rhs) {
  if (isFloat(lhs) || rankOf(lhs) < 2 || rankOf(rhs) < 2)
    return node.make<graph::MatmulOp>({lhs, rhs});
  llvm::SmallVector<int64_t> left(dimsOf(lhs)), right(dimsOf(rhs));
  left.push_back(1);
  right.insert(right.end() - 2, 1);
  Expr products = Expr(node, lhs).reshape(left) * Expr(node, rhs).reshape(right);
  return node.failed() ? mlir::Value()
                       : node.make<graph::ReduceSumOp>({products}, node.attrs().ints("axes", {rankOf(products) - 2}));
}

/// i * step + j * stride of each row i and column j: a table or, where that would be large, computed in each step.
inline mlir::Value placesOf(Node &node, int64_t rows, int64_t step, int64_t columns, int64_t stride) {
  if (rows > node.options().limits.foldedElements / columns) {
    mlir::Type i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
    Expr first(node, node.reshape(node.iota(rows, i64, 0, static_cast<double>(step)), {rows, 1}));
    return first + Expr(node, node.iota(columns, i64, 0, static_cast<double>(stride)));
  }
  HostTensor places;
  places.dims = {rows, columns};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      places.ints.push_back(i * step + j * stride);
  return node.constant(places);
}

/// x where it is between the bounds, else the bound beyond which it is; either may be null, and `high` counts where the
/// two are the wrong way round. A selection, by whose derivative x has all of it at the bounds too, as torch.clamp:
/// maximum and minimum would share it with them.
inline Expr clamp(Expr x, Expr low, Expr high) {
  if (low)
    x = low.where(x.apply<graph::LessOp>(low), x);
  return high ? high.where(high.apply<graph::LessOp>(x), x) : x;
}
/// The same, but at the bounds the derivative is 0, as that of torch's relu6 and hardsigmoid.
inline Expr saturate(Expr x, double low, double high) {
  Expr least = x.number(low), most = x.number(high);
  return least.where(x.apply<graph::LessEqualOp>(least), most.where(most.apply<graph::LessEqualOp>(x), x));
}

/// The p-norm, from the sums of p-th powers, or a deviation from a variance. At 0 the root's derivative is infinite;
/// that of the norm is taken as 0, as in torch.
inline Expr rootOfSums(Expr sums, double p) {
  if (p == 1)
    return sums;
  Expr isZero = sums.apply<graph::EqualOp>(0.0), positive = sums.number(1).where(isZero, sums);
  Expr root = p == 2 ? positive.apply<graph::SqrtOp>() : positive.apply<graph::PowOp>(1 / p);
  return sums.number(0).where(isZero, root);
}

} // namespace zc::importer
