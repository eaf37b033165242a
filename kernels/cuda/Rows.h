//===- Rows.h - softmax and cross-entropy: a block per row -------------------------===//
//
// A row is read once (Row.h). Sums over rows (the loss) go in two passes over partial sums in the workspace, cut by
// shape, so that they have the same bits every time. Limit: memory; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Row.h"
#include "kernels/shapes/Shapes.h"

#include <algorithm>

namespace zc::cuda {

//===-- softmax ------------------------------------------------------------------===//

template <typename T, int V, int P, bool logarithm> struct SoftmaxBody {
  const T *x;
  T *y;
  int64_t rows, n, inner;
  bool zeroMasked; ///< a row of which all is -infinity gives zeros
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forRows<P, V>(block, index, x, rows, n, inner,
                  [&](int64_t, int64_t start, auto &row) { softmax(block, start, row); });
  }

private:
  template <typename Block> ZC_HD void softmax(Block &block, int64_t start, Row<Block, T, V, P> &row) const {
    using A = Real<T>;
    const A lowest = -std::numeric_limits<A>::infinity();
    A top = reduceRow<MaxOf, P, V>(block, n, lowest, [&](int64_t i, int slot) {
      A in[V], best = lowest;
      row.read(i, slot, in);
      for (int k = 0; k < V; ++k)
        best = MaxOf::apply(best, in[k]);
      return best;
    });
    bool masked = zeroMasked && top == lowest;
    A sum = reduceRow<AddOf, P, V>(block, n, A(0), [&](int64_t i, int slot) {
      A in[V], part = 0;
      row.again(i, slot, in);
      for (int k = 0; k < V; ++k)
        part += exponential(in[k] - top);
      return part;
    });
    A scale = logarithm ? std::log(sum) : 1 / sum;
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      A in[V];
      row.again(i, slot, in);
      for (int k = 0; k < V; ++k)
        in[k] = masked ? A(0) : logarithm ? in[k] - top - scale : exponential(in[k] - top) * scale;
      storePack<V>(y + start + i * inner, in);
    });
  }
};

template <typename T, int V, int P, bool logarithm> struct SoftmaxGradBody {
  const T *grad, *y;
  T *d;
  int64_t n, inner;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    using A = Real<T>;
    const int64_t start = lineStart(index, n, inner);
    Row<Block, T, V, P == kShared ? kNowhere : P> gradRow(block, inner); // shared memory has room for one
    Row<Block, T, V, P> row(block, inner);
    gradRow.begin(block, grad + start, n);
    row.begin(block, y + start, n);
    A sum = reduceRow<AddOf, P, V>(block, n, A(0), [&](int64_t i, int slot) {
      A g[V], out[V], part = 0;
      gradRow.read(i, slot, g);
      row.read(i, slot, out);
      for (int k = 0; k < V; ++k)
        part += logarithm ? g[k] : g[k] * out[k];
      return part;
    });
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      A g[V], out[V];
      gradRow.again(i, slot, g);
      row.again(i, slot, out);
      for (int k = 0; k < V; ++k)
        g[k] = logarithm ? g[k] - exponential(out[k]) * sum : out[k] * (g[k] - sum);
      storePack<V>(d + start + i * inner, g);
    });
  }
};

template <typename Target, bool logarithm> Prepared<Target> prepareSoftmax(const KernelSpec &spec) {
  Result<shapes::AxisShape> read = shapes::readAxis(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    bool zeroMasked = spec.getInt("zero_masked", 0) != 0;
    return launching<Target>(spec, [s = *read, zeroMasked](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      auto *y = static_cast<T *>(operands[1]);
      overKeptRows<T>(
          launch, s.outer * s.inner, s.n, s.inner == 1 && isPacked<T>(s.n, x, y), kRowsInTurn, [&](auto cut) {
            return SoftmaxBody<T, cut.kPack, cut.kKept, logarithm>{x, y, s.outer * s.inner, s.n, s.inner, zeroMasked};
          });
    });
  });
}

template <typename Target, bool logarithm> Prepared<Target> prepareSoftmaxGrad(const KernelSpec &spec) {
  Result<shapes::AxisShape> read = shapes::readAxis(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *grad = static_cast<const T *>(operands[0]), *y = static_cast<const T *>(operands[1]);
      auto *d = static_cast<T *>(operands[2]);
      overKeptRows<T>(launch, s.outer * s.inner, s.n, s.inner == 1 && isPacked<T>(s.n, grad, y, d), 1, [&](auto cut) {
        return SoftmaxGradBody<T, cut.kPack, cut.kKept, logarithm>{grad, y, d, s.n, s.inner};
      });
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

/// The larger one that is no NaN.
struct TopOf {
  template <typename S> static ZC_HD S apply(S a, S b) { return std::fmax(a, b); }
};

/// What becomes of logits as they are read: nothing, or a cap, which rises with them.
struct Uncapped {
  template <typename A> ZC_HD A of(A x) const { return x; }
  template <typename A> ZC_HD A slope(A) const { return 1; }
};
template <typename A> struct CappedAt {
  A cap;
  ZC_HD A of(A x) const { return capped(x, cap); }
  ZC_HD A slope(A y) const { return cappedSlope(y, cap); }
};

/// log(sum of e^x) over a row of n logits; every thread has it.
template <typename Block, typename T, int V, int P, typename Cap = Uncapped>
ZC_HD Real<T> logSumExp(Block &block, Row<Block, T, V, P> &row, int64_t n, const Cap &cap = Cap()) {
  using A = Real<T>;
  const A lowest = -std::numeric_limits<A>::infinity();
  A top = reduceRow<TopOf, P, V>(block, n, lowest, [&](int64_t i, int slot) { // a NaN is in the sum
    A in[V], best = lowest;
    row.read(i, slot, in);
    for (int k = 0; k < V; ++k)
      best = TopOf::apply(best, in[k]);
    return best;
  });
  top = cap.of(top);
  A sum = reduceRow<AddOf, P, V>(block, n, A(0), [&](int64_t i, int slot) {
    A in[V], part = 0;
    row.again(i, slot, in);
    for (int k = 0; k < V; ++k)
      part += exponential(cap.of(in[k]) - top);
    return part;
  });
  return top + std::log(sum);
}

/// What a row adds to the loss: 0 for an ignored label, and for one out of range, which fails.
template <typename T, typename Cap = Uncapped>
ZC_HD double lossOfRow(const T *x, int64_t n, Real<T> lse, int64_t label, int64_t ignored, const Frame &frame,
                       const Cap &cap = Cap()) {
  bool counts = label != ignored;
  if (counts && (label < 0 || label >= n)) {
    frame.wrongLabel(label, n);
    counts = false;
  }
  return counts ? static_cast<double>(lse) - static_cast<double>(cap.of(static_cast<Real<T>>(load(x[label])))) : 0;
}

/// The gradient of a row's logits from the i-th on; of a label that is ignored, none.
template <int V, typename A>
ZC_HD void slopesOf(A (&logits)[V], int64_t i, A lse, A scale, int64_t label, bool counts) {
  for (int k = 0; k < V; ++k)
    logits[k] = exponential(logits[k] - lse);
  if (const int64_t at = label - i; counts && at >= 0 && at < V)
    for (int k = 0; k < V; ++k)
      logits[k] -= k == static_cast<int>(at) ? A(1) : A(0);
  for (int k = 0; k < V; ++k)
    logits[k] = counts ? logits[k] * scale : A(0);
}

/// lse of each row, and in `losses` what it adds to the loss.
template <typename T, typename S, int V, int P> struct CrossEntropyBody {
  const T *logits;
  Labels labels;
  S *lse;
  double *losses;
  int64_t rows, n, ignored;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forRows<P, V>(block, index, logits, rows, n, 1, [&](int64_t number, int64_t start, auto &row) {
      const Real<T> whole = logSumExp(block, row, n);
      block.once([&] {
        lse[number] = static_cast<S>(whole);
        losses[number] = lossOfRow(logits + start, n, whole, labels[number], ignored, frame);
      });
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
        frame.wrongLabel(label, n);
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
    const A whole = static_cast<A>(lse[row]), scale = static_cast<A>(*factor);
    const int64_t label = labels[row];
    block.template forEach<V>(n, [&](int64_t i) {
      A in[V];
      loadPack<V>(logits + row * n + i, in);
      slopesOf(in, i, whole, scale, label, label != ignored);
      storePack<V>(d + row * n + i, in);
    });
  }
};

template <typename Target> Prepared<Target> prepareCrossEntropy(const KernelSpec &spec) {
  Result<shapes::CrossEntropyShape> read = shapes::readCrossEntropy(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      Labels labels(operands[1], s.label);
      auto *lse = static_cast<S *>(operands[3]);
      auto *losses = static_cast<double *>(launch.workspace());
      overKeptRows<T>(launch, s.rows, s.classes, isPacked<T>(s.classes, x), kRowsInTurn, [&](auto cut) {
        return CrossEntropyBody<T, S, cut.kPack, cut.kKept>{x, labels, lse, losses, s.rows, s.classes, s.ignoreIndex};
      });
      launch.template blocks<1024>(
          1, MeanLossBody<S>{labels, losses, static_cast<S *>(operands[2]), s.rows, s.ignoreIndex, s.sum});
    });
  });
}

template <typename Target> Prepared<Target> prepareCrossEntropyGrad(const KernelSpec &spec) {
  Result<shapes::CrossEntropyShape> read = shapes::readCrossEntropyGrad(spec);
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
      auto start = [&](auto v) {
        overRows(launch, s.rows, s.classes / v(),
                 CrossEntropyGradBody<T, S, v()>{x, labels, static_cast<const S *>(operands[3]), factor, d, s.classes,
                                                 s.ignoreIndex});
      };
      if (isPacked<T>(s.classes, x, d))
        start(std::integral_constant<int, kRowPack<T>>());
      else
        start(std::integral_constant<int, 1>());
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
        frame.wrongLabel(label, classes);
      result[i] = static_cast<L>(label == ignored ? 0 : label);
    });
  }
};

template <typename Target> Prepared<Target> prepareLabelIndex(const KernelSpec &spec) {
  Result<shapes::LabelIndexShape> read = shapes::readLabelIndex(spec);
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
