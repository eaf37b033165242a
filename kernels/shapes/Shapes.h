//===- Shapes.h - specs of the larger kernels, checked and read ---------------===//
//
// A reference kernel and its fast version accept the same specs: both read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Quantized.h"
#include "kernels/formula/Optimizer.h"
#include "kernels/formula/Philox.h"
#include "kernels/shapes/Support.h"

#include <limits>

namespace zc::shapes {

/// result[batch] = op(lhs[batch]) op(rhs[batch]) + bias; op(lhs) is m x k, op(rhs) k x n.
struct MatmulShape {
  DType dtype;
  int64_t m, n, k;
  bool transLhs, transRhs, hasBias;
  Dims batch;                  ///< leading dimensions of the result
  Dims lhsStrides, rhsStrides; ///< elements per step along each batch dimension, 0 where broadcast
  int64_t numBatches;
};
Result<MatmulShape> readMatmul(const KernelSpec &spec);
/// x [B, T, C] times one matrix is a single product of B * T rows: a batch whose rhs is shared is folded into m.
MatmulShape foldedBatch(MatmulShape s);
/// Do matrices of `matrix` elements at these strides lie one after the other?
bool isRowMajorBatch(const Dims &strides, const Dims &batch, int64_t matrix);

/// matmul_part: part of a product of `whole` multiplications, two matrices, added to an addend of the result's type.
struct MatmulPartShape {
  MatmulShape product; ///< without batches and bias
  bool hasAddend;
  DType out; ///< f32, or the operands'
  double whole;
};
Result<MatmulPartShape> readMatmulPart(const KernelSpec &spec);

/// Tensors [outer, n, inner], the operation running along n.
struct AxisShape {
  DType dtype;
  int64_t outer, n, inner;
};
/// softmax, log_softmax (one input) and their gradients (two); all operands of one type; attribute axis.
Result<AxisShape> readAxis(const KernelSpec &spec, size_t inputs);

/// Norms over the last dimensions: `rows` rows of `n` elements.
struct NormShape {
  DType dtype, stat;
  int64_t rows, n;
  bool hasBias;
  double epsilon;
};
Result<NormShape> readLayerNorm(const KernelSpec &spec);
Result<NormShape> readLayerNormGrad(const KernelSpec &spec);
Result<NormShape> readRmsNorm(const KernelSpec &spec);
Result<NormShape> readRmsNormGrad(const KernelSpec &spec);

struct AttentionShape {
  DType dtype, stat;
  int64_t batch, heads, keyHeads, queries, keys, depth, valueDepth;
  double scale;
  bool causal, hasMask;
  int64_t window; ///< keys that a query sees on either side, its own one among them; 0: all
  double softcap; ///< what scores tend to, scale a product being small; 0: they are that product
  DType mask;
  std::array<int64_t, 4> maskStrides; ///< elements per step along batch, head, query, key
  bool hasMaskGrad;
  double dropout; ///< of probabilities; 0: none
  int64_t dropoutId;
  uint64_t seed;
  int rank;
  /// Of dropout: heads that a sample has on all ranks, and heads before the first one of this rank's.
  int64_t headsOfSample, headsBefore;

  /// Is lse so large that fp32 has it roughly? Beside a mask of -1e9, which hides a row as a whole, the logarithm of
  /// the row's sum is lost, and each key has a weight of 1. The gradient sums such a row's weights again, and divides.
  static ZC_HD bool isRough(double lse) {
    return (lse < -512 && lse >= std::numeric_limits<double>::lowest()) || lse > 512;
  }
  /// Whose number dropout draws for the first score of a head. Not negative, whatever a plan says.
  ZC_HD int64_t firstNumber(int64_t sample, int64_t head) const {
    const auto heads = static_cast<uint64_t>(sample) * static_cast<uint64_t>(headsOfSample) +
                       static_cast<uint64_t>(headsBefore) + static_cast<uint64_t>(head);
    return static_cast<int64_t>(heads * static_cast<uint64_t>(queries * keys) & ~uint64_t{0} >> 1);
  }
  /// Of a query's own key it is so far to the first one that it sees, and past the last one, wherever keys end.
  ZC_HD int64_t firstSeen() const { return window == 0 ? -queries - keys : 1 - window; }
  ZC_HD int64_t endOfSeen() const { return causal ? 1 : window == 0 ? queries + keys : window; }
  /// Keys that positions let query i see: [firstKey, endKey). Neither is less for later queries.
  ZC_HD int64_t firstKey(int64_t i) const { return keyAt(i + firstSeen()); }
  ZC_HD int64_t endKey(int64_t i) const { return keyAt(i + endOfSeen()); }

  // Those of batches and heads that have masks of their own; the others' gradients of it are summed.
  ZC_HD int64_t maskBatches() const { return maskStrides[0] == 0 ? 1 : batch; }
  ZC_HD int64_t maskHeads() const { return maskStrides[1] == 0 ? 1 : heads; }

private:
  /// A query's own key is as far from the last one as the query is from the last query.
  ZC_HD int64_t keyAt(int64_t place) const {
    const int64_t key = place + keys - queries;
    return key < 0 ? 0 : key < keys ? key : keys;
  }
};
/// Operands: query, key, value, [mask], result, lse.
Result<AttentionShape> readAttention(const KernelSpec &spec);
/// Operands: grad, query, key, value, output, lse, [mask], d_query, d_key, d_value, and d_mask with `mask_grad`.
Result<AttentionShape> readAttentionGrad(const KernelSpec &spec);

struct CrossEntropyShape {
  DType dtype, stat, label;
  int64_t rows, classes, ignoreIndex;
  bool sum;
};
/// Operands: logits, labels, loss, lse.
Result<CrossEntropyShape> readCrossEntropy(const KernelSpec &spec);
/// Operands: grad, logits, labels, lse, d_logits.
Result<CrossEntropyShape> readCrossEntropyGrad(const KernelSpec &spec);

/// label_index: `n` labels of `classes` classes.
struct LabelIndexShape {
  int64_t n, classes, ignoreIndex;
};
Result<LabelIndexShape> readLabelIndex(const KernelSpec &spec);

/// Tensors seen as [outer, n, inner] with indices along n.
struct GatherShape {
  DType dtype, index;
  int64_t outer, n, inner, count; ///< count indices
};
/// Data, indices, result.
Result<GatherShape> readGather(const KernelSpec &spec);
/// Gradient, indices, [what the sums are added onto], result.
Result<GatherShape> readGatherGrad(const KernelSpec &spec);
inline bool addsOnto(const KernelSpec &gatherGrad) { return gatherGrad.numInputs == 3; }

/// Data as [batch, bounds..., inner]; `perBatch` tuples of bounds.size() indices for each batch.
struct GatherNdShape {
  int64_t batch = 1, perBatch = 1, inner = 1, slices = 1; ///< slices = product of bounds
  Dims bounds;
};
/// gather_nd: data, indices, result. gather_nd_grad: grad, indices, result; `full` is the tensor of the larger shape.
Result<GatherNdShape> readGatherNd(const KernelSpec &spec, size_t full, size_t part);

/// Over the indices' shape: offset of each index, and of data's element with 0 for the coordinate along the axis.
struct ElementsShape {
  Walk<2> walk;
  int64_t n, axisStride;
};

Result<ElementsShape> readElements(const KernelSpec &spec, size_t full, size_t part);

/// Operands: grad, factor, p, then the rule's moments, [out]. The kernel's name is the rule's.
struct OptimizerShape {
  OptimizerRule rule;
  DType grad, param;
  int64_t n;
  size_t moments;
  std::optional<DType> out;
};
Result<OptimizerShape> readOptimizer(const KernelSpec &spec);

/// quantize, dequantize, dequantize_sum_quantize and dequantize_sum (kernels/README.md): runs of equal quantized
/// pieces.
struct QuantizeShape {
  DType dtype; ///< of the unquantized operand, or of the residual; f32 where there is neither
  QuantizedPiece piece;
  PieceGrid grid;
  int64_t pieces = 1;  ///< of the result
  int64_t sources = 1; ///< quantized inputs that are summed, one after the other in memory
  bool hasResidual = false, accumulate = false;
  float beta = 0, scale = 1;
};
Result<QuantizeShape> readQuantize(const KernelSpec &spec);
Result<QuantizeShape> readDequantize(const KernelSpec &spec);
Result<QuantizeShape> readDequantizeSumQuantize(const KernelSpec &spec);
Result<QuantizeShape> readDequantizeSum(const KernelSpec &spec);

} // namespace zc::shapes
