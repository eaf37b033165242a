//===- Mask.h - what an attention mask is known to be ------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace zc::importer {

/// Is a derivative of `value` possibly wanted (it is computed from a float parameter)? Such a mask is a bias to train.
bool dependsOnFloatParameter(mlir::Value value);

/// So low that its exponential is 0, in every float type, beside that of any score that a training survives.
inline bool isLow(double number) { return number <= -1e9; }

/// Does a float come from an input, or from constants that are large, so that it may hide a row?
bool mayBeLow(mlir::Value value);

/// Nothing is added, or everything kept. `keeps`, here and below: a bool mask keeps where it is true, else it drops
/// there.
bool hidesNothing(mlir::Value mask, bool keeps = true);

/// Scores are kept where a bool is true, or where `keeps` is not.
struct Condition {
  mlir::Value value;
  bool keeps;
};
/// The parts of which all must hold: of `and`s, of `or`s where what is true is dropped, under negations and expands;
/// none that always holds. They broadcast to what the whole does.
llvm::SmallVector<Condition, 2> partsOf(Condition condition);
/// One bool of them all, true where scores are kept; null of none.
mlir::Value conjunctionOf(llvm::ArrayRef<Condition> conditions, mlir::Location loc, mlir::PatternRewriter &rewriter);

/// A float mask: 0 where scores are kept, `low` elsewhere.
struct Hiding {
  Condition condition;
  double low;
};
/// Nothing where it is no such one; `low` is low then (isLow).
std::optional<Hiding> hidingOf(mlir::Value mask);

/// With dimensions of 1 in front.
mlir::Value withRank(mlir::Value value, int64_t rank, mlir::PatternRewriter &rewriter);

/// Is `value`, of rank 4 or less, known to be the same for all samples, which its first of four dimensions are? Masks
/// of a window are tables of a batch, by positions that no sample has other ones of.
bool isSameForSamples(mlir::Value value, int depth = 8);
/// Then what it is for one.
mlir::Value ofOneSample(mlir::Value value, mlir::PatternRewriter &rewriter);

} // namespace zc::importer
