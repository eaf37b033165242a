//===- LogReaders.h - who reads the log-softmax of logits -----------------------------------===//
//
// Losses that cross_entropy does not cover take numbers of each row of log-softmaxes: that of the label, and a sum over
// all classes, plain (label smoothing) or of weighted ones. As exporters and import write them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Gradient.h"

#include <optional>

namespace zc::graph {

/// What reads a log-softmax along its last dimension, if it is no more than one number of each row for one label, and
/// sums over all classes with the same weights.
struct LogReaders {
  struct Reader {
    mlir::Operation *op; ///< gather_elements, reduce_sum or reduce_mean
    bool isNegated;      ///< what it reads
  };
  llvm::SmallVector<Reader> picks, sums;
  mlir::Value indices; ///< of the labels, [.., 1]; null without picks
  mlir::Value weights; ///< a row of classes; null: all alike

  /// `isLive`: of a use that counts.
  static std::optional<LogReaders> of(LogSoftmaxOp logs, llvm::function_ref<bool(mlir::OpOperand &)> isLive);
  /// Labels and weights stand before `logs` from now on. False, and nothing is moved, if they cannot.
  bool hoistBefore(LogSoftmaxOp logs);
  /// [rows]; `labels` are of `logs`' rows.
  mlir::Value buildLabels(TensorBuilder &on);
  /// [classes] in fp32: what the mean over weighted classes has of each; zeros where there is no sum.
  mlir::Value buildShares(TensorBuilder &on, int64_t classes);
  /// Readers' results come from these, both [rows] in fp32.
  void replace(mlir::Value picked, mlir::Value shared, int64_t classes);

private:
  llvm::SmallVector<mlir::Operation *> through; ///< what stands between the log-softmax and its readers

  bool read(mlir::Value logs, bool isNegated, mlir::Value weights, llvm::function_ref<bool(mlir::OpOperand &)> isLive);
  bool readBy(mlir::Operation *op, mlir::Value logs, bool isNegated, mlir::Value by,
              llvm::function_ref<bool(mlir::OpOperand &)> isLive);
};

} // namespace zc::graph
