// attention and its gradient, one row of scores at a time, in double.
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/reference/StatisticTypes.h"
#include "kernels/formula/Philox.h"
#include "kernels/shapes/AttentionTensors.h"

namespace zc::cpu {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// What is added to score (b, h, i, j): 0, -inf or the mask's value.
template <typename T>
double maskAt(const AttentionShape &s, const void *mask, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (j < s.firstKey(i) || j >= s.endKey(i))
    return kMinusInfinity;
  if (!s.hasMask)
    return 0;
  int64_t at = b * s.maskStrides[0] + h * s.maskStrides[1] + i * s.maskStrides[2] + j * s.maskStrides[3];
  if (s.mask == DType::boolean)
    return static_cast<const uint8_t *>(mask)[at] ? 0 : kMinusInfinity;
  return s.mask == DType::f32 ? static_cast<const float *>(mask)[at] : load(static_cast<const T *>(mask)[at]);
}

/// Of a query's product with a key, before it is masked; and what that grows by where the product times `scale` does.
double scoreOf(const AttentionShape &s, double product) {
  return s.softcap == 0 ? s.scale * product : s.softcap * std::tanh(s.scale * product / s.softcap);
}
double growthOf(const AttentionShape &s, double score) {
  const double part = s.softcap == 0 ? 0 : score / s.softcap;
  return 1 - part * part;
}

/// What is dropped of probabilities in a step, by sample, head, query and key.
class Dropout {
public:
  Dropout(const AttentionShape &s, const StepContext &context)
      : s(s), key(randomKey(s.dropoutId, context.step, context.micro, s.rank, s.seed)) {}
  double factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return s.dropout == 0 ? 1
                          : static_cast<double>(dropoutFactor(key, s.firstNumber(b, h) + i * s.keys + j, s.dropout));
  }

private:
  const AttentionShape &s;
  Words key;
};

template <typename T> double dot(const T *a, const T *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(load(a[i])) * load(b[i]);
  return sum;
}

/// Row i of a head.
template <typename T> T *rowOf(const HeadTensor &tensor, void *const *operands, int64_t b, int64_t h, int64_t i) {
  return as<T>(operands[tensor.operand]) + tensor.at(b, h, i);
}

/// Calls fn(b, h, query, row number) for the rows of [B, H, S] that share key head `key` of [B, K], in order.
template <typename Fn> void forRowsOf(const AttentionShape &s, int64_t key, Fn fn) {
  int64_t b = key / s.keyHeads, group = s.heads / s.keyHeads, first = key % s.keyHeads * group;
  for (int64_t h = first; h < first + group; ++h)
    for (int64_t i = 0; i < s.queries; ++i)
      fn(b, h, i, (b * s.heads + h) * s.queries + i);
}

Prepared prepareAttention(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<AttentionTensors> located = readAttentionTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    Workspace workspace(spec);
    auto scoreRow = workspace.take<double>(read->keys), weighted = workspace.take<double>(read->valueDepth);
    return makeKernel([s = *read, t = *located, scoreRow, weighted](void *const *operands, const StepContext &context) {
      const Dropout dropout(s, context);
      double *scores = scoreRow.of(operands), *sums = weighted.of(operands);
      for (int64_t keyHead = 0; keyHead < s.batch * s.keyHeads; ++keyHead)
        forRowsOf(s, keyHead, [&](int64_t b, int64_t h, int64_t i, int64_t row) {
          auto keyRow = [&](const HeadTensor &tensor, int64_t j) {
            return rowOf<const T>(tensor, operands, b, keyHead % s.keyHeads, j);
          };
          const T *q = rowOf<const T>(t.query, operands, b, h, i);
          T *result = rowOf<T>(t.result, operands, b, h, i);
          double top = kMinusInfinity, total = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            double &score = scores[j];
            score = scoreOf(s, dot(q, keyRow(t.key, j), s.depth)) + maskAt<T>(s, operands[3], b, h, i, j);
            top = score > top || std::isnan(score) ? score : top;
          }
          std::fill(sums, sums + s.valueDepth, 0);
          for (int64_t j = 0; j < s.keys; ++j) {
            double p = top == kMinusInfinity ? 0 : std::exp(scores[j] - top);
            total += p;
            p *= p == 0 ? 0 : dropout.factor(b, h, i, j);
            const T *v = keyRow(t.value, j);
            for (int64_t d = 0; p != 0 && d < s.valueDepth; ++d)
              sums[d] += p * load(v[d]);
          }
          for (int64_t d = 0; d < s.valueDepth; ++d)
            result[d] = storeSum<T>(total == 0 ? 0 : sums[d] / total);
          as<S>(operands[t.lse])[row] = static_cast<S>(total == 0 ? kMinusInfinity : top + std::log(total));
        });
    });
  });
}

/// The gradients of what has one key head, in a step. With P = exp(scores - lse), whose sum over a row is 1, delta =
/// rowsum(grad * output): dV = P^T grad; dS = P (grad V^T - delta) scale; dQ = dS K; dK = dS^T Q; of a mask dS / scale.
/// With dropout's factors F P becomes F P in dV, and grad V^T F grad V^T. With a softcap dQ and dK are of dS times 1 -
/// tanh^2. Queries that share a key head are summed in order, and so is what shares an element of the mask.
template <typename T, typename S> struct KeyHeadGradients {
  const AttentionShape &s;
  const AttentionGradTensors &t;
  void *const *operands;
  const Dropout &dropout;
  double *dq, *dk, *dv; ///< sums of a query, and of the head's keys and values
  S *dMask;             ///< null: not wanted

  /// Of query i and all keys: 1 but for rounding, where lse is not rough.
  double sumOfWeights(int64_t b, int64_t h, int64_t keyHead, int64_t i, double lse) const {
    if (!AttentionShape::isRough(lse))
      return 1;
    const T *q = rowOf<T>(t.query, operands, b, h, i);
    double sum = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      const double score = scoreOf(s, dot(q, rowOf<T>(t.key, operands, b, keyHead, j), s.depth));
      sum += std::exp(score + maskAt<T>(s, operands[6], b, h, i, j) - lse);
    }
    return sum;
  }

  void addQuery(int64_t b, int64_t h, int64_t keyHead, int64_t i, int64_t row) const {
    const T *g = rowOf<T>(t.grad, operands, b, h, i), *q = rowOf<T>(t.query, operands, b, h, i);
    const double delta = dot(g, rowOf<T>(t.output, operands, b, h, i), s.valueDepth), lse = as<S>(operands[5])[row];
    const double sum = sumOfWeights(b, h, keyHead, i, lse);
    std::fill(dq, dq + s.depth, 0);
    for (int64_t j = 0; j < s.keys && lse != kMinusInfinity; ++j) {
      const T *k = rowOf<T>(t.key, operands, b, keyHead, j);
      const double score = scoreOf(s, dot(q, k, s.depth));
      double p = std::exp(score + maskAt<T>(s, operands[6], b, h, i, j) - lse) / sum;
      const double factor = dropout.factor(b, h, i, j);
      double slope = p * (factor * dot(g, rowOf<T>(t.value, operands, b, keyHead, j), s.valueDepth) - delta);
      const double ds = slope * growthOf(s, score) * s.scale;
      if (dMask)
        dMask[b * s.maskStrides[0] + h * s.maskStrides[1] + i * s.maskStrides[2] + j * s.maskStrides[3]] +=
            static_cast<S>(slope);
      for (int64_t d = 0; p != 0 && d < s.valueDepth; ++d)
        dv[j * s.valueDepth + d] += factor * p * load(g[d]);
      for (int64_t d = 0; p != 0 && d < s.depth; ++d) {
        dq[d] += ds * load(k[d]);
        dk[j * s.depth + d] += ds * load(q[d]);
      }
    }
    T *dQuery = rowOf<T>(t.dQuery, operands, b, h, i);
    for (int64_t d = 0; d < s.depth; ++d)
      dQuery[d] = storeSum<T>(dq[d]);
  }

  /// Once all queries are added.
  void store(int64_t b, int64_t keyHead) const {
    for (int64_t j = 0; j < s.keys; ++j) {
      for (int64_t d = 0; d < s.depth; ++d)
        rowOf<T>(t.dKey, operands, b, keyHead, j)[d] = storeSum<T>(dk[j * s.depth + d]);
      for (int64_t d = 0; d < s.valueDepth; ++d)
        rowOf<T>(t.dValue, operands, b, keyHead, j)[d] = storeSum<T>(dv[j * s.valueDepth + d]);
    }
  }
};

Prepared prepareAttentionGrad(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<AttentionGradTensors> located = readAttentionGradTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    Workspace workspace(spec);
    auto query = workspace.take<double>(read->depth), keys = workspace.take<double>(read->keys * read->depth),
         values = workspace.take<double>(read->keys * read->valueDepth);
    return makeKernel(
        [s = *read, t = *located, query, keys, values](void *const *operands, const StepContext &context) {
          const Dropout dropout(s, context);
          double *dk = keys.of(operands), *dv = values.of(operands);
          S *dMask = s.hasMaskGrad ? as<S>(operands[t.dMask]) : nullptr;
          if (dMask)
            std::fill_n(dMask, s.maskBatches() * s.maskHeads() * s.queries * s.keys, S(0));
          const KeyHeadGradients<T, S> gradients{s, t, operands, dropout, query.of(operands), dk, dv, dMask};
          for (int64_t head = 0; head < s.batch * s.keyHeads; ++head) {
            std::fill(dk, dk + keys.count, 0);
            std::fill(dv, dv + values.count, 0);
            forRowsOf(s, head, [&](int64_t b, int64_t h, int64_t i, int64_t row) {
              gradients.addQuery(b, h, head % s.keyHeads, i, row);
            });
            gradients.store(head / s.keyHeads, head % s.keyHeads);
          }
        });
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

int64_t attentionBytes(const AttentionShape &s) {
  const int64_t plain = Workspace::sum(Workspace::bytesOf<double>(s.keys), Workspace::bytesOf<double>(s.valueDepth));
  return std::max(plain, isFast(s.dtype) ? tileBytes(AttentionPieces(s)) : 0);
}
int64_t attentionGradBytes(const AttentionShape &s) {
  const int64_t plain =
      Workspace::sum(Workspace::bytesOf<double>(s.depth), Workspace::bytesOf<double>(Workspace::times(s.keys, s.depth)),
                     Workspace::bytesOf<double>(Workspace::times(s.keys, s.valueDepth)));
  return std::max(plain, isFast(s.dtype) ? tileBytes(AttentionGradPieces(s)) : 0);
}

} // namespace

void addAttention(KernelRegistry &registry) {
  registry.add("attention", prepareAttention, KernelTraits(bytesOf<readAttention, attentionBytes>).throughViews());
  registry.add("attention_grad", prepareAttentionGrad,
               KernelTraits(bytesOf<readAttentionGrad, attentionGradBytes>).throughViews());
}

} // namespace zc::cpu
