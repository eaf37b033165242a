//===- HeadShapes.h - a linear layer and its loss, a chunk of rows at a time ---===//
//
// The fast kernels of linear_cross_entropy are other kernels in a row, on a chunk of rows and what the one before left
// of it: this says which, and where in the workspace what they hand on lies. Those of a GPU (cuda/Head.h) have the
// same products.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Support.h"

namespace zc::shapes {

/// Has fp32 such a cap of logits, and its reciprocal?
constexpr bool isLogitCap(double cap) { return cap >= 1e-30 && cap <= 1e30; }

struct HeadShape {
  DType dtype, stat, label;
  int64_t rows, width, classes;
  int64_t chunk; ///< rows at a time, of `rows`
  int64_t ignoreIndex;
  bool sum, transWeight, hasBias;
  bool isGrad;   ///< the loss with its gradients
  bool isEach;   ///< linear_log_softmax's: results are of each row, nothing is ignored
  bool isFrozen; ///< of which the layer gets none
  double cap;    ///< of logits; 0: none
  bool tf32;     ///< KernelSpec's, of the products
  /// Where operands stand: the gradients of the results, input, labels, [shares], weight, [bias], results, gradients.
  size_t resultsOf() const { return isEach ? 2 : 1; }
  size_t inputAt() const { return isGrad ? resultsOf() : 0; }
  size_t labelsAt() const { return inputAt() + 1; }
  size_t sharesAt() const { return inputAt() + 2; }
  size_t weightAt() const { return inputAt() + (isEach ? 3 : 2); }
  size_t biasAt() const { return weightAt() + 1; }
  size_t resultsAt() const { return weightAt() + (hasBias ? 2 : 1); }
  size_t gradientsAt() const { return resultsAt() + resultsOf(); }
  /// Is its loss no cross_entropy of its logits, so that rows are taken otherwise?
  bool hasOwnRows() const { return isEach || cap != 0; }
  /// Do weight and bias get gradients?
  bool trainsLayer() const { return isGrad && !isFrozen; }
  /// Are sums over chunks kept beside the gradient, which has 16 bits?
  bool widens() const { return trainsLayer() && sizeOf(dtype) < sizeOf(DType::f32) && chunk < rows; }
};
/// Operands: input, labels, weight, [bias], loss.
Result<HeadShape> readHead(const KernelSpec &spec);
/// Operands: grad, input, labels, weight, [bias], loss, d_input, and unless `frozen` d_weight, [d_bias].
Result<HeadShape> readHeadGrad(const KernelSpec &spec);
/// Operands: input, labels, shares, weight, [bias], picked, shared.
Result<HeadShape> readLogHead(const KernelSpec &spec);
/// Operands: by_picked, by_shared, input, labels, shares, weight, [bias], picked, shared, d_input, and unless `frozen`
/// d_weight, [d_bias].
Result<HeadShape> readLogHeadGrad(const KernelSpec &spec);

// Kernels for `rows` rows of a chunk; operands as in the graph dialect.
/// input, weight, [bias], logits
KernelSpec logitsOf(const HeadShape &s, int64_t rows);
/// logits, labels, loss, lse: summed
KernelSpec lossOf(const HeadShape &s, int64_t rows);
/// grad, logits, labels, lse, the logits again
KernelSpec logitsGradOf(const HeadShape &s, int64_t rows);
/// logits' gradient, weight, d_input
KernelSpec inputGradOf(const HeadShape &s, int64_t rows);
/// logits' gradient and input (or they in the other order, with [K, C] weights), d_weight; `adds`: to what it holds.
KernelSpec weightGradOf(const HeadShape &s, int64_t rows, bool adds);

/// Bytes that any of them works in, and elements of what they hand on.
struct HeadPieces {
  int64_t scratch = 0;    ///< bytes
  int64_t logits = 0;     ///< of the operands' type
  int64_t lse = 0;        ///< fp32
  int64_t losses = 0;     ///< fp32, of rows whose logits are capped
  int64_t weightSums = 0; ///< fp32, of 16-bit gradients
  int64_t biasSums = 0;   ///< fp32
  // Where there are several chunks, of the rows of one that were gathered:
  int64_t places = 0, labels = 0;     ///< int64: their numbers; of the labels' type
  int64_t inputs = 0, inputGrads = 0; ///< of the operands' type
  explicit HeadPieces(const HeadShape &s);
  int64_t bytes(const HeadShape &s) const;
};

} // namespace zc::shapes
