//===- Scores.h - what stands between a product of queries and keys and its softmax --===//
#pragma once

#include "compiler/import/raise/Match.h"
#include "compiler/import/raise/Positions.h"

namespace zc::importer {

using Dims = llvm::ArrayRef<int64_t>;

/// scale * q k^T, times `factors` that have a number for each row of scores, or for all; of which cap tanh(that / cap)
struct Scores {
  graph::MatmulOp product;
  double scale = 1;
  double cap = 0; ///< 0: none
  llvm::SmallVector<mlir::Value, 1> factors;
};

/// factor * value, of floats
struct Added {
  mlir::Value value;
  double factor = 1;
};

struct Masked {
  Scores scores;
  llvm::SmallVector<Condition, 2> conditions;
  llvm::SmallVector<Added, 2> added; ///< one after the other
  bool isAveraged = false;           ///< what no condition keeps has a finite number, `low`, not -inf
  bool mayAverageRows = false; ///< so that a row of which nothing is kept averages all values, if there may be one
  double low = 0;

  /// Does all of it broadcast to `scores`?
  bool broadcastsTo(Dims scores) const;
  /// What of the masks is but positions; they are no longer among these. One that is added stays beside others: rows
  /// that both hide as a whole average what they would.
  Positions takePositions(Dims scores);
  /// One mask, of rank `rank`, or null.
  mlir::Value buildMask(int64_t rank, mlir::Location loc, mlir::PatternRewriter &rewriter) const;
};

/// `averages`: may rows be averaged (Masked::mayAverageRows)? `most`: additions, conditions and scales that are looked
/// through.
std::optional<Masked> matchMasked(mlir::Value value, bool averages, int most = 4);

/// The one value under constant factors; the factors go to `scale`.
mlir::Value unscaled(mlir::Value value, double &scale);

} // namespace zc::importer
