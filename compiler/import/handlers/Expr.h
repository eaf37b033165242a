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

/// The p-norm, from the sums of p-th powers. At 0 the root's derivative is infinite; that of the norm is taken as 0, as
/// in torch.
inline Expr rootOfSums(Expr sums, double p) {
  if (p == 1)
    return sums;
  Expr isZero = sums.apply<graph::EqualOp>(0.0), positive = sums.number(1).where(isZero, sums);
  Expr root = p == 2 ? positive.apply<graph::SqrtOp>() : positive.apply<graph::PowOp>(1 / p);
  return sums.number(0).where(isZero, root);
}

} // namespace zc::importer
