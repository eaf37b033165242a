//===- HeadOperands.h - a last linear layer, and what models do to its logits -----------===//
//
// What stands between a layer and its loss, said of the layer's operands instead: scales and rows that are added, where
// the logits need not exist for them, and a cap (Gemma 2, arXiv 2408.00118), which a kernel computes as it reads them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Gradient.h"

#include <optional>

namespace zc::graph {

/// Sums of such are in fp32, as kernels have them.
bool isNarrow(mlir::Type element);
/// Does `op` do the same to each class, whatever the other classes are?
bool leavesClasses(mlir::Operation *op);
/// A number for each class of `classes`, in whatever dimensions?
bool isRowOf(mlir::Value row, mlir::Value classes);
/// The logits that `op` reads, if what it does may stand between a layer and its loss; null otherwise.
mlir::Value logitsBefore(mlir::Operation *op);

/// A layer, and what stands behind it.
struct HeadOperands {
  MatmulOp layer;
  llvm::SmallVector<mlir::Operation *> between; ///< from the layer on

  double rowsFactor = 1; ///< of the layer's input
  struct Bias {
    mlir::Value row;
    double factor;
  };
  llvm::SmallVector<Bias> biases = {}; ///< of which the layer has the sum
  double cap = 0;                      ///< logits x become cap tanh(x / cap); 0: they stay

  /// Nothing if the layer does not multiply rows by a matrix, or where 16 bits would round what is exact.
  static std::optional<HeadOperands> of(MatmulOp layer, llvm::ArrayRef<mlir::Operation *> between);

  int64_t classes() { return shapeOf(layer.getResult()).back(); }
  mlir::Type element() { return elementOf(layer.getLhs()); }
  /// The layer's input, [rows, width], as what stands between leaves it.
  mlir::Value buildRows(TensorBuilder &on);
  /// [classes]; null if there is none.
  mlir::Value buildBias(TensorBuilder &on);
};

} // namespace zc::graph
