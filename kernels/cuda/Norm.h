//===- Norm.h - layer norm and RMS norm: a block per row -----------------------------===//
//
// As Rows.h; the gradients of scale and bias are sums over rows, in two passes over partial sums in the workspace.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Rows.h"

namespace zc::cuda {

/// y = (x - mean) / std * scale + bias; `centred` false: mean is 0 (RMS norm), and has no place in memory.
template <typename T, typename S, int V, bool centred> struct NormBody {
  const T *x, *scale, *bias;
  T *y;
  S *mean, *invStd;
  int64_t n;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t row, const Frame &) const {
    using A = Real<T>;
    const T *in = x + row * n;
    A m = 0;
    if (centred)
      m = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
        A v[V], part = 0;
        loadPack<V>(in + i, v);
        for (int k = 0; k < V; ++k)
          part += v[k];
        return part;
      }) / static_cast<A>(n);
    A squares = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
      A v[V], part = 0;
      loadPack<V>(in + i, v);
      for (int k = 0; k < V; ++k)
        part += (v[k] - m) * (v[k] - m);
      return part;
    });
    A r = 1 / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(epsilon));
    block.template forEach<V>(n, [&](int64_t i) {
      A v[V], w[V], b[V] = {};
      loadPack<V>(in + i, v);
      loadPack<V>(scale + i, w);
      if (bias)
        loadPack<V>(bias + i, b);
      for (int k = 0; k < V; ++k)
        v[k] = (v[k] - m) * r * w[k] + b[k];
      storePack<V>(y + row * n + i, v);
    });
    block.once([&] {
      if (centred)
        mean[row] = static_cast<S>(m);
      invStd[row] = static_cast<S>(r);
    });
  }
};

/// With xhat the normalised input and u = g * scale: dx = (u - mean(u) - xhat mean(u xhat)) / std; mean(u) is 0 for RMS
/// norm.
template <typename T, typename S, int V, bool centred> struct NormGradBody {
  const T *grad, *x, *scale;
  const S *mean, *invStd;
  T *dx;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t row, const Frame &) const {
    using A = Real<T>;
    const T *g = grad + row * n, *in = x + row * n;
    A m = centred ? static_cast<A>(mean[row]) : A(0), r = static_cast<A>(invStd[row]);
    A sumU = 0;
    if (centred)
      sumU = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
        A gv[V], w[V], part = 0;
        loadPack<V>(g + i, gv);
        loadPack<V>(scale + i, w);
        for (int k = 0; k < V; ++k)
          part += gv[k] * w[k];
        return part;
      });
    A sumUx = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
      A gv[V], v[V], w[V], part = 0;
      loadPack<V>(g + i, gv);
      loadPack<V>(in + i, v);
      loadPack<V>(scale + i, w);
      for (int k = 0; k < V; ++k)
        part += gv[k] * w[k] * ((v[k] - m) * r);
      return part;
    });
    A meanU = sumU / static_cast<A>(n), meanUx = sumUx / static_cast<A>(n);
    block.template forEach<V>(n, [&](int64_t i) {
      A gv[V], v[V], w[V];
      loadPack<V>(g + i, gv);
      loadPack<V>(in + i, v);
      loadPack<V>(scale + i, w);
      for (int k = 0; k < V; ++k)
        v[k] = r * (gv[k] * w[k] - meanU - (v[k] - m) * r * meanUx);
      storePack<V>(dx + row * n + i, v);
    });
  }
};

/// Columns that one block of a column sum takes, a thread each.
constexpr int kColumnThreads = 128;
/// Part p of rows: dscale and dbias of each column, into partial[p] and partial[parts + p].
template <typename T, typename S, bool centred> struct NormColumnsBody {
  const T *grad, *x;
  const S *mean, *invStd;
  double *partial;
  int64_t rows, n, parts;
  struct Element {
    T grad, x;
    S mean, invStd;
  };
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t tiles = (n + kColumnThreads - 1) / kColumnThreads, part = index / tiles;
    int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
    block.forEach(kColumnThreads, [&](int64_t t) {
      int64_t column = index % tiles * kColumnThreads + t;
      if (column >= n)
        return;
      double dScale = 0, dBias = 0;
      inBatches(
          begin, end,
          [&](int64_t row) {
            return Element{grad[row * n + column], x[row * n + column], centred ? mean[row] : S(0), invStd[row]};
          },
          [&](const Element &e) {
            double g = load(e.grad), v = load(e.x);
            dScale += g * ((v - static_cast<double>(e.mean)) * static_cast<double>(e.invStd));
            dBias += g;
          });
      partial[part * n + column] = dScale;
      if (centred)
        partial[(parts + part) * n + column] = dBias;
    });
  }
};

/// Adds up the parts: out[column] = sum of partial[p][column] in order.
template <typename T> struct AddPartsBody {
  const double *partial;
  T *out;
  int64_t n, parts;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, n, [&](int64_t i) {
      double sum = 0;
      inBatches(0, parts, [&](int64_t p) { return partial[p * n + i]; }, [&](double part) { sum += part; });
      out[i] = storeSum<T>(sum);
    });
  }
};

template <typename Target, bool centred> Prepared<Target> prepareNorm(const KernelSpec &spec) {
  Result<cpu::NormShape> read = centred ? cpu::readLayerNorm(spec) : cpu::readRmsNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]), *scale = static_cast<const T *>(operands[1]);
      const T *bias = centred && s.hasBias ? static_cast<const T *>(operands[2]) : nullptr;
      void *const *outputs = operands + (bias ? 3 : 2);
      auto *y = static_cast<T *>(outputs[0]);
      S *mean = centred ? static_cast<S *>(outputs[1]) : nullptr;
      auto *invStd = static_cast<S *>(outputs[centred ? 2 : 1]);
      withPack<T>(
          s.n,
          [&](auto v) {
            overRows(launch, s.rows, s.n,
                     NormBody<T, S, v(), centred>{x, scale, bias, y, mean, invStd, s.n, s.epsilon});
          },
          x, scale, bias, y);
    });
  });
}

template <typename Target, bool centred> Prepared<Target> prepareNormGrad(const KernelSpec &spec) {
  Result<cpu::NormShape> read = centred ? cpu::readLayerNormGrad(spec) : cpu::readRmsNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    int64_t parts = rowParts(read->rows);
    return launching<Target>(spec, [s = *read, parts](void *const *operands, const auto &launch) {
      auto *grad = static_cast<const T *>(operands[0]), *x = static_cast<const T *>(operands[1]);
      auto *scale = static_cast<const T *>(operands[2]);
      const S *mean = centred ? static_cast<const S *>(operands[3]) : nullptr;
      auto *invStd = static_cast<const S *>(operands[centred ? 4 : 3]);
      void *const *outputs = operands + (centred ? 5 : 4);
      auto *partial = static_cast<double *>(launch.workspace());
      // Before dx, which may lie over the gradient or the input.
      if (s.n > 0)
        launch.template blocks<kColumnThreads>(
            parts * ((s.n + kColumnThreads - 1) / kColumnThreads),
            NormColumnsBody<T, S, centred>{grad, x, mean, invStd, partial, s.rows, s.n, parts});
      overResults(launch, s.n, AddPartsBody<T>{partial, static_cast<T *>(outputs[1]), s.n, parts});
      if (centred)
        overResults(launch, s.n, AddPartsBody<T>{partial + parts * s.n, static_cast<T *>(outputs[2]), s.n, parts});
      auto *dx = static_cast<T *>(outputs[0]);
      withPack<T>(
          s.n,
          [&](auto v) {
            overRows(launch, s.rows, s.n, NormGradBody<T, S, v(), centred>{grad, x, scale, mean, invStd, dx, s.n});
          },
          grad, x, scale, dx);
    });
  });
}

template <typename Target, typename Registry> void addNorms(Registry &registry) {
  registry.add("layer_norm", prepareNorm<Target, true>);
  registry.add("layer_norm_grad", prepareNormGrad<Target, true>);
  registry.add("rms_norm", prepareNorm<Target, false>);
  registry.add("rms_norm_grad", prepareNormGrad<Target, false>);
}

} // namespace zc::cuda
