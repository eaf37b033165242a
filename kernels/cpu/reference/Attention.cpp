// attention and its gradient, one row of scores at a time, in double.
#include "kernels/cpu/Shapes.h"

namespace zc::cpu {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// What is added to score (b, h, i, j): 0, -inf or the mask's value.
template <typename T>
double maskAt(const AttentionShape &s, const void *mask, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (s.causal && j > i + s.keys - s.queries)
    return kMinusInfinity;
  if (!s.hasMask)
    return 0;
  int64_t at = b * s.maskStrides[0] + h * s.maskStrides[1] + i * s.maskStrides[2] + j * s.maskStrides[3];
  if (s.mask == DType::boolean)
    return static_cast<const uint8_t *>(mask)[at] ? 0 : kMinusInfinity;
  return s.mask == DType::f32 ? static_cast<const float *>(mask)[at] : load(static_cast<const T *>(mask)[at]);
}

template <typename T> double dot(const T *a, const T *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(load(a[i])) * load(b[i]);
  return sum;
}

/// fn(Tag<storage>, Tag<statistics>).
template <typename Fn> Prepared withTypes(const AttentionShape &s, Fn fn) {
  return withFloat(s.dtype,
                   [&](auto tag) { return s.stat == DType::f64 ? fn(tag, Tag<double>()) : fn(tag, Tag<float>()); });
}

/// Calls fn(b, h, key head, row number) over [B, H, S].
template <typename Fn> void forRows(const AttentionShape &s, Fn fn) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i)
        fn(b, h, b * s.keyHeads + h / (s.heads / s.keyHeads), i, (b * s.heads + h) * s.queries + i);
}

Prepared prepareAttention(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read, scores = std::vector<double>(static_cast<size_t>(read->keys)),
                       sums = std::vector<double>(static_cast<size_t>(read->valueDepth))](void *const *operands,
                                                                                          const StepContext &) mutable {
      const T *q = as<T>(operands[0]), *k = as<T>(operands[1]), *v = as<T>(operands[2]);
      void *const *outputs = operands + (s.hasMask ? 4 : 3);
      forRows(s, [&](int64_t b, int64_t h, int64_t keyHead, int64_t i, int64_t row) {
        double top = kMinusInfinity, total = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double &score = scores[static_cast<size_t>(j)];
          score = s.scale * dot(q + row * s.depth, k + (keyHead * s.keys + j) * s.depth, s.depth) +
                  maskAt<T>(s, operands[3], b, h, i, j);
          top = score > top || std::isnan(score) ? score : top;
        }
        std::fill(sums.begin(), sums.end(), 0);
        for (int64_t j = 0; j < s.keys; ++j) {
          double p = top == kMinusInfinity ? 0 : std::exp(scores[static_cast<size_t>(j)] - top);
          total += p;
          for (int64_t d = 0; p != 0 && d < s.valueDepth; ++d)
            sums[static_cast<size_t>(d)] += p * load(v[(keyHead * s.keys + j) * s.valueDepth + d]);
        }
        for (int64_t d = 0; d < s.valueDepth; ++d)
          as<T>(outputs[0])[row * s.valueDepth + d] =
              storeSum<T>(total == 0 ? 0 : sums[static_cast<size_t>(d)] / total);
        as<S>(outputs[1])[row] = static_cast<S>(total == 0 ? kMinusInfinity : top + std::log(total));
      });
    });
  });
}

/// With P = exp(scores - lse), delta = rowsum(grad * output): dV = P^T grad; dS = P (grad V^T - delta) scale;
/// dQ = dS K; dK = dS^T Q. Heads that share a key head are summed in order.
Prepared prepareAttentionGrad(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    const AttentionShape &shape = *read;
    auto rows = static_cast<size_t>(shape.batch * shape.keyHeads * shape.keys);
    return makeKernel([s = shape, dq = std::vector<double>(static_cast<size_t>(shape.depth)),
                       dk = std::vector<double>(rows * static_cast<size_t>(shape.depth)),
                       dv = std::vector<double>(rows * static_cast<size_t>(shape.valueDepth))](
                          void *const *operands, const StepContext &) mutable {
      const T *q = as<T>(operands[1]), *k = as<T>(operands[2]), *v = as<T>(operands[3]);
      void *const *outputs = operands + (s.hasMask ? 7 : 6);
      std::fill(dk.begin(), dk.end(), 0);
      std::fill(dv.begin(), dv.end(), 0);
      forRows(s, [&](int64_t b, int64_t h, int64_t keyHead, int64_t i, int64_t row) {
        const T *g = as<T>(operands[0]) + row * s.valueDepth, *out = as<T>(operands[4]) + row * s.valueDepth;
        double delta = dot(g, out, s.valueDepth), lse = as<S>(operands[5])[row];
        std::fill(dq.begin(), dq.end(), 0);
        for (int64_t j = 0; j < s.keys && lse != kMinusInfinity; ++j) {
          int64_t key = keyHead * s.keys + j;
          double p = std::exp(s.scale * dot(q + row * s.depth, k + key * s.depth, s.depth) +
                              maskAt<T>(s, operands[6], b, h, i, j) - lse);
          double ds = p * (dot(g, v + key * s.valueDepth, s.valueDepth) - delta) * s.scale;
          for (int64_t d = 0; p != 0 && d < s.valueDepth; ++d)
            dv[static_cast<size_t>(key * s.valueDepth + d)] += p * load(g[d]);
          for (int64_t d = 0; p != 0 && d < s.depth; ++d) {
            dq[static_cast<size_t>(d)] += ds * load(k[key * s.depth + d]);
            dk[static_cast<size_t>(key * s.depth + d)] += ds * load(q[row * s.depth + d]);
          }
        }
        for (int64_t d = 0; d < s.depth; ++d)
          as<T>(outputs[0])[row * s.depth + d] = storeSum<T>(dq[static_cast<size_t>(d)]);
      });
      for (size_t i = 0; i < dk.size(); ++i)
        as<T>(outputs[1])[i] = storeSum<T>(dk[i]);
      for (size_t i = 0; i < dv.size(); ++i)
        as<T>(outputs[2])[i] = storeSum<T>(dv[i]);
    });
  });
}

} // namespace

void addAttention(KernelRegistry &registry) {
  registry.add("attention", prepareAttention);
  registry.add("attention_grad", prepareAttentionGrad);
}

} // namespace zc::cpu
