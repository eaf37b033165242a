//===- Rows.h - softmax and cross-entropy: a block per row -------------------------===//
//
// A row is read in packs of 16 bytes where it is contiguous and aligned. Sums over rows (the loss) go in two passes
// over partial sums in the workspace, cut by shape, so that they have the same bits every time. Limit: memory; goal
// 0.85 of a device copy. A row that is read again comes from a cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/Launch.h"

#include <algorithm>

namespace zc::cuda {

using namespace formula;

/// What rows are computed in: doubles stay what they are.
template <typename T> using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <int V, typename T> ZC_HD void loadPack(const T *x, Real<T> (&out)[V]) {
  auto pack = *reinterpret_cast<const Pack<T, V> *>(x);
  for (int k = 0; k < V; ++k)
    out[k] = static_cast<Real<T>>(load(pack.element[k]));
}
template <int V, typename T> ZC_HD void storePack(T *y, const Real<T> (&in)[V]) {
  Pack<T, V> pack;
  for (int k = 0; k < V; ++k)
    pack.element[k] = store<T>(static_cast<Compute<T>>(in[k]));
  *reinterpret_cast<Pack<T, V> *>(y) = pack;
}

/// fn(Tag of a pack's length): whole packs of 16 bytes where rows of n elements at these addresses have them.
template <typename T, typename Fn, typename... Pointers> void withPack(int64_t n, Fn fn, Pointers... rows) {
  constexpr int V = static_cast<int>(16 / sizeof(T));
  if (n % V == 0 && ((reinterpret_cast<uintptr_t>(rows) % 16 == 0) && ...))
    fn(std::integral_constant<int, V>());
  else
    fn(std::integral_constant<int, 1>());
}

//===-- softmax ------------------------------------------------------------------===//

/// Line `index` of [outer, n, inner] along n, `inner` elements apart (1 with packs longer than 1).
template <typename T> ZC_HD int64_t lineStart(int64_t index, int64_t n, int64_t inner) {
  return index / inner * n * inner + index % inner;
}

template <typename T, int V, bool logarithm> struct SoftmaxBody {
  const T *x;
  T *y;
  int64_t n, inner;
  bool zeroMasked; ///< a row of which all is -infinity gives zeros
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    using A = Real<T>;
    const A lowest = -std::numeric_limits<A>::infinity();
    int64_t start = lineStart<T>(index, n, inner);
    A top = block.template reduce<MaxOf, V>(n, lowest, [&](int64_t i) {
      A in[V], best = lowest;
      loadPack<V>(x + start + i * inner, in);
      for (int k = 0; k < V; ++k)
        best = MaxOf::apply(best, in[k]);
      return best;
    });
    bool masked = zeroMasked && top == lowest;
    A sum = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
      A in[V], part = 0;
      loadPack<V>(x + start + i * inner, in);
      for (int k = 0; k < V; ++k)
        part += std::exp(in[k] - top);
      return part;
    });
    A scale = logarithm ? std::log(sum) : 1 / sum;
    block.template forEach<V>(n, [&](int64_t i) {
      A in[V];
      loadPack<V>(x + start + i * inner, in);
      for (int k = 0; k < V; ++k)
        in[k] = masked ? A(0) : logarithm ? in[k] - top - scale : std::exp(in[k] - top) * scale;
      storePack<V>(y + start + i * inner, in);
    });
  }
};

template <typename T, int V, bool logarithm> struct SoftmaxGradBody {
  const T *grad, *y;
  T *d;
  int64_t n, inner;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    using A = Real<T>;
    int64_t start = lineStart<T>(index, n, inner);
    A sum = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
      A g[V], out[V], part = 0;
      loadPack<V>(grad + start + i * inner, g);
      loadPack<V>(y + start + i * inner, out);
      for (int k = 0; k < V; ++k)
        part += logarithm ? g[k] : g[k] * out[k];
      return part;
    });
    block.template forEach<V>(n, [&](int64_t i) {
      A g[V], out[V];
      loadPack<V>(grad + start + i * inner, g);
      loadPack<V>(y + start + i * inner, out);
      for (int k = 0; k < V; ++k)
        g[k] = logarithm ? g[k] - std::exp(out[k]) * sum : out[k] * (g[k] - sum);
      storePack<V>(d + start + i * inner, g);
    });
  }
};

template <typename Target, bool logarithm> Prepared<Target> prepareSoftmax(const KernelSpec &spec) {
  Result<cpu::AxisShape> read = cpu::readAxis(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    bool zeroMasked = spec.getInt("zero_masked", 0) != 0;
    return launching<Target>(spec, [s = *read, zeroMasked](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      auto *y = static_cast<T *>(operands[1]);
      withPack<T>(
          s.inner == 1 ? s.n : 1,
          [&](auto v) {
            overRows(launch, s.outer * s.inner, s.n, SoftmaxBody<T, v(), logarithm>{x, y, s.n, s.inner, zeroMasked});
          },
          x, y);
    });
  });
}

template <typename Target, bool logarithm> Prepared<Target> prepareSoftmaxGrad(const KernelSpec &spec) {
  Result<cpu::AxisShape> read = cpu::readAxis(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *grad = static_cast<const T *>(operands[0]), *y = static_cast<const T *>(operands[1]);
      auto *d = static_cast<T *>(operands[2]);
      withPack<T>(
          s.inner == 1 ? s.n : 1,
          [&](auto v) {
            overRows(launch, s.outer * s.inner, s.n, SoftmaxGradBody<T, v(), logarithm>{grad, y, d, s.n, s.inner});
          },
          grad, y, d);
    });
  });
}

//===-- cross-entropy --------------------------------------------------------------===//

/// Labels of either width.
struct Labels {
  const void *data;
  bool isWide;
  Labels(const void *data, DType type) : data(data), isWide(type == DType::i64) {}
  ZC_HD int64_t operator[](int64_t i) const {
    return isWide ? static_cast<const int64_t *>(data)[i] : static_cast<const int32_t *>(data)[i];
  }
};

/// log(sum of e^x) over a row of n logits; every thread has it.
template <int V, typename T, typename Block> ZC_HD Real<T> logSumExp(Block &block, const T *x, int64_t n) {
  using A = Real<T>;
  const A lowest = -std::numeric_limits<A>::infinity();
  A top = block.template reduce<MaxOf, V>(n, lowest, [&](int64_t i) {
    A in[V], best = lowest;
    loadPack<V>(x + i, in);
    for (int k = 0; k < V; ++k)
      best = MaxOf::apply(best, in[k]);
    return best;
  });
  A sum = block.template reduce<AddOf, V>(n, A(0), [&](int64_t i) {
    A in[V], part = 0;
    loadPack<V>(x + i, in);
    for (int k = 0; k < V; ++k)
      part += std::exp(in[k] - top);
    return part;
  });
  return top + std::log(sum);
}

/// What a row adds to the loss: 0 for an ignored label, and for one out of range, which fails.
template <typename T>
ZC_HD double lossOfRow(const T *x, int64_t n, Real<T> lse, int64_t label, int64_t ignored, const Frame &frame) {
  bool counts = label != ignored;
  if (counts && (label < 0 || label >= n)) {
    frame.fail(label);
    counts = false;
  }
  return counts ? static_cast<double>(lse) - static_cast<double>(load(x[label])) : 0;
}

/// The gradient of a row's logits, which may be `x` itself.
template <int V, typename T, typename Block>
ZC_HD void slopesOfRow(Block &block, const T *x, T *d, int64_t n, Real<T> lse, Real<T> scale, int64_t label,
                       int64_t ignored) {
  using A = Real<T>;
  block.template forEach<V>(n, [&](int64_t i) {
    A in[V];
    loadPack<V>(x + i, in);
    for (int k = 0; k < V; ++k)
      in[k] = label == ignored ? A(0) : (std::exp(in[k] - lse) - (i + k == label ? A(1) : A(0))) * scale;
    storePack<V>(d + i, in);
  });
}

/// lse of each row, and in `losses` what it adds to the loss.
template <typename T, typename S, int V> struct CrossEntropyBody {
  const T *logits;
  Labels labels;
  S *lse;
  double *losses;
  int64_t n, ignored;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t row, const Frame &frame) const {
    const T *x = logits + row * n;
    const Real<T> whole = logSumExp<V>(block, x, n);
    block.once([&] {
      lse[row] = static_cast<S>(whole);
      losses[row] = lossOfRow(x, n, whole, labels[row], ignored, frame);
    });
  }
};

/// The sum of `losses`, divided by how many labels count.
template <typename S> struct MeanLossBody {
  Labels labels;
  const double *losses;
  S *loss;
  int64_t rows, ignored;
  bool sums;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &) const {
    double sum = block.template reduce<AddOf>(rows, 0.0, [&](int64_t r) { return losses[r]; });
    auto count =
        block.template reduce<AddOf>(rows, int64_t{0}, [&](int64_t r) -> int64_t { return labels[r] != ignored; });
    block.once([&] { *loss = static_cast<S>(sums ? sum : sum / static_cast<double>(count)); });
  }
};

/// What each row's gradient is multiplied by; a label out of range fails.
template <typename S> struct LossFactorBody {
  const S *grad;
  Labels labels;
  double *factor;
  int64_t rows, n, ignored;
  bool sums;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &frame) const {
    auto count = block.template reduce<AddOf>(rows, int64_t{0}, [&](int64_t r) -> int64_t {
      int64_t label = labels[r];
      if (label == ignored)
        return 0;
      if (label < 0 || label >= n)
        frame.fail(label);
      return 1;
    });
    block.once([&] { *factor = static_cast<double>(*grad) / (sums ? 1.0 : static_cast<double>(count)); });
  }
};

template <typename T, typename S, int V> struct CrossEntropyGradBody {
  const T *logits;
  Labels labels;
  const S *lse;
  const double *factor;
  T *d;
  int64_t n, ignored;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t row, const Frame &) const {
    using A = Real<T>;
    slopesOfRow<V>(block, logits + row * n, d + row * n, n, static_cast<A>(lse[row]), static_cast<A>(*factor),
                   labels[row], ignored);
  }
};

/// fn(Tag<storage>, Tag<statistics>): f32, of doubles also f64.
template <typename Fn> auto withStatistics(DType type, DType statistics, Fn fn) {
  return withFloat(type, [&](auto tag) {
    if constexpr (std::is_same_v<TypeOf<decltype(tag)>, double>)
      return statistics == DType::f64 ? fn(tag, Tag<double>()) : fn(tag, Tag<float>());
    else
      return fn(tag, Tag<float>());
  });
}

template <typename Target> Prepared<Target> prepareCrossEntropy(const KernelSpec &spec) {
  Result<cpu::CrossEntropyShape> read = cpu::readCrossEntropy(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      Labels labels(operands[1], s.label);
      auto *lse = static_cast<S *>(operands[3]);
      auto *losses = static_cast<double *>(launch.workspace());
      withPack<T>(
          s.classes,
          [&](auto v) {
            overRows(launch, s.rows, s.classes,
                     CrossEntropyBody<T, S, v()>{x, labels, lse, losses, s.classes, s.ignoreIndex});
          },
          x);
      launch.template blocks<1024>(
          1, MeanLossBody<S>{labels, losses, static_cast<S *>(operands[2]), s.rows, s.ignoreIndex, s.sum});
    });
  });
}

template <typename Target> Prepared<Target> prepareCrossEntropyGrad(const KernelSpec &spec) {
  Result<cpu::CrossEntropyShape> read = cpu::readCrossEntropyGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[1]);
      Labels labels(operands[2], s.label);
      auto *d = static_cast<T *>(operands[4]);
      auto *factor = static_cast<double *>(launch.workspace());
      launch.template blocks<1024>(1, LossFactorBody<S>{static_cast<const S *>(operands[0]), labels, factor, s.rows,
                                                        s.classes, s.ignoreIndex, s.sum});
      withPack<T>(
          s.classes,
          [&](auto v) {
            overRows(launch, s.rows, s.classes,
                     CrossEntropyGradBody<T, S, v()>{x, labels, static_cast<const S *>(operands[3]), factor, d,
                                                     s.classes, s.ignoreIndex});
          },
          x, d);
    });
  });
}

/// Labels to indices: ignored ones become 0, others outside [0, classes) fail.
template <typename L> struct LabelIndexBody {
  const L *labels;
  L *result;
  int64_t n, classes, ignored;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t label = labels[i];
      if (label != ignored && (label < 0 || label >= classes))
        frame.fail(label);
      result[i] = static_cast<L>(label == ignored ? 0 : label);
    });
  }
};

template <typename Target> Prepared<Target> prepareLabelIndex(const KernelSpec &spec) {
  Result<cpu::LabelIndexShape> read = cpu::readLabelIndex(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[0].dtype, [&](auto tag) {
    using L = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      overElements(launch, s.n,
                   LabelIndexBody<L>{static_cast<const L *>(operands[0]), static_cast<L *>(operands[1]), s.n, s.classes,
                                     s.ignoreIndex});
    });
  });
}

template <typename Target, typename Registry> void addRows(Registry &registry) {
  registry.add("softmax", prepareSoftmax<Target, false>);
  registry.add("log_softmax", prepareSoftmax<Target, true>);
  registry.add("softmax_grad", prepareSoftmaxGrad<Target, false>);
  registry.add("log_softmax_grad", prepareSoftmaxGrad<Target, true>);
  registry.add("label_index", prepareLabelIndex<Target>);
}
template <typename Target, typename Registry> void addCrossEntropy(Registry &registry) {
  registry.add("cross_entropy", prepareCrossEntropy<Target>);
  registry.add("cross_entropy_grad", prepareCrossEntropyGrad<Target>);
}
} // namespace zc::cuda
