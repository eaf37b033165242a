//===- Match.h - looking at values while recognising ----------------------------===//
#pragma once

#include "compiler/import/base/HostTensor.h"
#include "compiler/import/raise/Raise.h"
#include "dialects/graph/Infer.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>
#include <optional>

namespace zc::importer {

using graph::tensorOf;
inline llvm::ArrayRef<int64_t> dimsOf(mlir::Value value) { return tensorOf(value).getShape(); }

/// The elements of a constant.
std::optional<HostTensor> constantOf(mlir::Value value);
/// The one number that all elements of a float constant are.
std::optional<double> splatOf(mlir::Value value);
/// The one truth that all elements of a bool constant are; no number is.
std::optional<bool> truthOf(mlir::Value value);
inline bool isTrue(mlir::Value value) { return truthOf(value) == true; }
/// Within 1e-6 relative: constants pass through float32 in exporters.
bool isNear(std::optional<double> value, double wanted);

/// `scalar` * product of `values`, seen through multiplications and divisions by constants whose intermediate results
/// nothing else uses. x^n for n = 2, 3 counts as n factors.
struct Factors {
  double scalar = 1;
  llvm::SmallVector<mlir::Value, 4> values;
};
/// `open`: an operation (besides `value`'s own) whose result has one use may be seen through.
Factors factorsOf(mlir::Value value);

/// The operands of an addition with the constant, if there is one, second.
struct Sum {
  mlir::Value value;
  double constant;
};
/// value = x + constant
std::optional<Sum> addedConstant(mlir::Value value);

/// `op`'s operands in either order: calls `match(a, b)`, then `match(b, a)`.
template <typename Fn> bool eitherOrder(mlir::Operation *op, Fn match) {
  return match(op->getOperand(0), op->getOperand(1)) || match(op->getOperand(1), op->getOperand(0));
}

/// `value` is the mean of `x` over its last dimensions, kept as 1: the first of them.
std::optional<int64_t> meanOverTail(mlir::Value value, mlir::Value x);

/// What scales and masks scores before their softmax.
inline bool isBetweenScoresAndSoftmax(mlir::Operation *op) {
  return llvm::isa_and_nonnull<graph::AddOp, graph::SubOp, graph::MulOp, graph::DivOp, graph::MaxOp, graph::SelectOp,
                               graph::TanhOp>(op);
}

/// Same element type and shape.
inline bool sameType(mlir::Value a, mlir::Value b) { return a.getType() == b.getType(); }

} // namespace zc::importer
