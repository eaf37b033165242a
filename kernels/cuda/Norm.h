//===- Norm.h - layer norm and RMS norm: a block per row -----------------------------===//
//
// As Rows.h; the gradients of scale and bias are sums over rows, in passes over partial sums in the workspace, cut by
// shape. Where rows are held, dx and a part's sums are made of one reading; a part of rows is then as long as makes the
// GPU busy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Reduce.h"
#include "kernels/cuda/Row.h"

namespace zc::cuda {

/// Mean and squared deviations from it of so many numbers; two of them make one by Chan's formula ("Updating Formulae
/// and a Pairwise Algorithm for Computing Sample Variances", 1979): one reduction instead of two.
template <typename A> struct Moments {
  A count, mean, squares;
};
struct JoinMoments {
  template <typename S> static ZC_HD S apply(const S &a, const S &b) {
    const auto count = a.count + b.count, weight = count > 0 ? b.count / count : 0, apart = b.mean - a.mean;
    return {count, a.mean + apart * weight, a.squares + b.squares + apart * apart * a.count * weight};
  }
};

/// y = (x - mean) / std * scale + bias; `centred` false: mean is 0 (RMS norm), and has no place in memory.
template <typename T, typename S, int V, int P, bool centred> struct NormBody {
  const T *x, *scale, *bias;
  T *y;
  S *mean, *invStd;
  int64_t rows, n;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forRows<P, V>(block, index, x, rows, n, 1,
                  [&](int64_t number, int64_t start, auto &row) { norm(block, number, start, row); });
  }

private:
  using A = Real<T>;
  template <typename Block>
  ZC_HD void norm(Block &block, int64_t number, int64_t start, Row<Block, T, V, P> &row) const {
    const Moments<A> of = momentsOf(block, row);
    A r = 1 / std::sqrt(of.squares / static_cast<A>(n) + static_cast<A>(epsilon));
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      A v[V], w[V], b[V] = {};
      row.again(i, slot, v);
      loadPack<V>(scale + i, w);
      if (bias)
        loadPack<V>(bias + i, b);
      for (int k = 0; k < V; ++k)
        v[k] = (v[k] - of.mean) * r * w[k] + b[k];
      storePack<V>(y + start + i, v);
    });
    block.once([&] {
      if (centred)
        mean[number] = static_cast<S>(of.mean);
      invStd[number] = static_cast<S>(r);
    });
  }

  template <typename Block> ZC_HD Moments<A> momentsOf(Block &block, Row<Block, T, V, P> &row) const {
    auto squaresOf = [](const A(&v)[V], A m) {
      A sum = 0;
      for (int k = 0; k < V; ++k)
        sum += (v[k] - m) * (v[k] - m);
      return sum;
    };
    if constexpr (centred)
      return reduceRow<JoinMoments, P, V>(block, n, Moments<A>{}, [&](int64_t i, int slot) {
        A v[V], sum = 0;
        row.read(i, slot, v);
        for (int k = 0; k < V; ++k)
          sum += v[k];
        return Moments<A>{V, sum / V, squaresOf(v, sum / V)};
      });
    const A squares = reduceRow<AddOf, P, V>(block, n, A(0), [&](int64_t i, int slot) {
      A v[V];
      row.read(i, slot, v);
      return squaresOf(v, 0);
    });
    return {static_cast<A>(n), 0, squares};
  }
};

/// What a row's gradient is made of. With xhat the normalised input and u = g * scale:
/// dx = (u - mean(u) - xhat mean(u xhat)) / std; mean(u) is 0 for RMS norm.
template <typename T, typename S, bool centred> struct NormGradOperands {
  const T *grad, *x, *scale;
  const S *mean, *invStd;
  T *dx;
  int64_t rows, n;
};

/// Rows of part `index`, of which each thread holds P packs: dx, and in partial[index] the sums over these rows that
/// the scale's gradient consists of, then the bias'. The next row is on its way while one is computed; dx may lie over
/// the gradient or x, of which no other row is written.
template <typename T, typename S, int V, int P, bool centred> class HeldNormGradBody {
public:
  HeldNormGradBody(const NormGradOperands<T, S, centred> &of, float *partial, int64_t parts)
      : of(of), partial(partial), parts(parts) {}
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t n = of.n, first = of.rows * index / parts, end = of.rows * (index + 1) / parts;
    Rows<Block> now(block), next(block);
    Sums<Block> sums{};
    if (first < end)
      now.begin(block, of, first);
    for (int64_t number = first; number < end; ++number) {
      if (number + 1 < end)
        next.begin(block, of, number + 1);
      row(block, number, now, sums);
      now = next;
    }
    float *own = partial + index * (centred ? 2 : 1) * n;
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      storePack<V>(own + i, sums.scale[slot]);
      if (centred)
        storePack<V>(own + n + i, sums.bias[slot]);
    });
  }

private:
  using A = Real<T>;
  template <typename Block> struct Rows {
    Row<Block, T, V, P> grad, x;
    A mean = 0, invStd = 0;
    ZC_HD explicit Rows(Block &block) : grad(block), x(block) {}
    ZC_HD void begin(Block &block, const NormGradOperands<T, S, centred> &of, int64_t number) {
      grad.begin(block, of.grad + number * of.n, of.n);
      x.begin(block, of.x + number * of.n, of.n);
      mean = centred ? static_cast<A>(of.mean[number]) : A(0);
      invStd = static_cast<A>(of.invStd[number]);
    }
  };
  template <typename Block> struct Sums {
    A scale[Block::template kSlots<P>][V], bias[Block::template kSlots<P>][V];
  };

  template <typename Block>
  ZC_HD void row(Block &block, int64_t number, const Rows<Block> &rows, Sums<Block> &sums) const {
    const int64_t n = of.n;
    const A r = rows.invStd;
    const auto both = reduceRow<AddOf, P, V>(block, n, Two<A>{}, [&](int64_t i, int slot) {
      A g[V], v[V], w[V];
      Two<A> part{};
      rows.grad.again(i, slot, g);
      rows.x.again(i, slot, v);
      loadPack<V>(of.scale + i, w);
      for (int k = 0; k < V; ++k) {
        const A u = g[k] * w[k], xhat = (v[k] - rows.mean) * r;
        part = part + Two<A>{u, u * xhat};
        sums.scale[slot][k] += g[k] * xhat;
        sums.bias[slot][k] += g[k];
      }
      return part;
    });
    const A meanU = centred ? both.first / static_cast<A>(n) : A(0), slope = both.second / static_cast<A>(n) * r;
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      A g[V], v[V], w[V];
      rows.grad.again(i, slot, g);
      rows.x.again(i, slot, v);
      loadPack<V>(of.scale + i, w);
      for (int k = 0; k < V; ++k)
        v[k] = r * (g[k] * w[k] - meanU - (v[k] - rows.mean) * slope);
      storePack<V>(of.dx + number * n + i, v);
    });
  }

  NormGradOperands<T, S, centred> of;
  float *partial; ///< [parts][centred ? 2 : 1][n]
  int64_t parts;
};

/// dx of a row that is read again.
template <typename T, typename S, int V, bool centred> struct NormGradBody {
  NormGradOperands<T, S, centred> of;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t row, const Frame &) const {
    using A = Real<T>;
    const int64_t n = of.n;
    const T *g = of.grad + row * n, *in = of.x + row * n;
    const A m = centred ? static_cast<A>(of.mean[row]) : A(0), r = static_cast<A>(of.invStd[row]);
    const auto sums = block.template reduce<AddOf, V>(n, Two<A>{}, [&](int64_t i) {
      A gv[V], v[V], w[V];
      Two<A> part{};
      loadPack<V>(g + i, gv);
      loadPack<V>(in + i, v);
      loadPack<V>(of.scale + i, w);
      for (int k = 0; k < V; ++k)
        part = part + Two<A>{gv[k] * w[k], gv[k] * w[k] * ((v[k] - m) * r)};
      return part;
    });
    const A meanU = centred ? sums.first / static_cast<A>(n) : A(0), meanUx = sums.second / static_cast<A>(n);
    block.template forEach<V>(n, [&](int64_t i) {
      A gv[V], v[V], w[V];
      loadPack<V>(g + i, gv);
      loadPack<V>(in + i, v);
      loadPack<V>(of.scale + i, w);
      for (int k = 0; k < V; ++k)
        v[k] = r * (gv[k] * w[k] - meanU - (v[k] - m) * r * meanUx);
      storePack<V>(of.dx + row * n + i, v);
    });
  }
};

/// Columns that one block of a sum over rows takes, a thread each.
constexpr int kNormColumns = 128;
/// Part p of rows: dscale and dbias of each column, into partial[p].
template <typename T, typename S, bool centred> struct NormColumnsBody {
  NormGradOperands<T, S, centred> of;
  double *partial; ///< [parts][centred ? 2 : 1][n]
  int64_t parts;
  struct Element {
    T grad, x;
    S mean, invStd;
  };
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t n = of.n, tiles = (n + kNormColumns - 1) / kNormColumns, part = index / tiles;
    const int64_t begin = of.rows * part / parts, end = of.rows * (part + 1) / parts;
    block.forEach(kNormColumns, [&](int64_t t) {
      int64_t column = index % tiles * kNormColumns + t;
      if (column >= n)
        return;
      double dScale = 0, dBias = 0;
      inBatches(
          begin, end,
          [&](int64_t row) {
            return Element{of.grad[row * n + column], of.x[row * n + column], centred ? of.mean[row] : S(0),
                           of.invStd[row]};
          },
          [&](const Element &e) {
            double g = load(e.grad), v = load(e.x);
            dScale += g * ((v - static_cast<double>(e.mean)) * static_cast<double>(e.invStd));
            dBias += g;
          });
      double *own = partial + part * (centred ? 2 : 1) * n;
      own[column] = dScale;
      if (centred)
        own[n + column] = dBias;
    });
  }
};

/// The gradients of scale and bias of their sums over parts of the rows.
template <typename T> struct NormSumsBody {
  const double *partial;
  T *dScale, *dBias;
  int64_t n, parts;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t results = dBias ? 2 * n : n;
    forResults(block, index, results, [&](int64_t i) {
      double sum = 0;
      inBatches(0, parts, [&](int64_t p) { return partial[p * results + i]; }, [&](double part) { sum += part; });
      (i < n ? dScale[i] : dBias[i - n]) = storeSum<T>(sum);
    });
  }
};

template <typename Target, bool centred> Prepared<Target> prepareNorm(const KernelSpec &spec) {
  Result<shapes::NormShape> read = centred ? shapes::readLayerNorm(spec) : shapes::readRmsNorm(spec);
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
      overKeptRows<T>(launch, s.rows, s.n, isPacked<T>(s.n, x, scale, bias, y), kRowsInTurn, [&](auto cut) {
        return NormBody<T, S, cut.kPack, cut.kKept, centred>{x, scale, bias, y, mean, invStd, s.rows, s.n, s.epsilon};
      });
    });
  });
}

template <typename Launcher, typename T, typename S, bool centred>
void runNormGrad(const Launcher &launch, const NormGradOperands<T, S, centred> &of, T *dScale, T *dBias) {
  const NormGradCut cut(of.rows, of.n, sizeof(T), centred ? 2 : 1);
  const bool packed = isPacked<T>(of.n, of.grad, of.x, of.scale, of.dx);
  auto *sums = static_cast<double *>(launch.workspace());
  auto *partial = reinterpret_cast<float *>(sums + cut.sums());
  int64_t parts = cut.parts;
  if (packed && cut.heldParts) {
    if constexpr (sizeof(T) < 8)
      whereHeld(of.n / kRowPack<T>, [&](auto threads, auto held) {
        launch.template blocks<threads()>(
            cut.heldParts, HeldNormGradBody<T, S, kRowPack<T>, held(), centred>(of, partial, cut.heldParts));
      });
    parts = cut.joined();
    joinColumns(launch, partial, sums, cut.results, cut.heldParts, parts, SumOf());
  } else {
    // Before dx, which may lie over the gradient or the input.
    launch.template blocks<kNormColumns>(parts * ((of.n + kNormColumns - 1) / kNormColumns),
                                         NormColumnsBody<T, S, centred>{of, sums, parts});
    if (!packed)
      overRows(launch, of.rows, of.n, NormGradBody<T, S, 1, centred>{of});
    else if constexpr (sizeof(T) == 8)
      overRows(launch, of.rows, of.n / kRowPack<T>, NormGradBody<T, S, kRowPack<T>, centred>{of});
    else // too long to be held
      launch.template blocks<kLongRowThreads>(of.rows, NormGradBody<T, S, kRowPack<T>, centred>{of});
  }
  overResults(launch, cut.results, NormSumsBody<T>{sums, dScale, dBias, of.n, parts});
}

template <typename Target, bool centred> Prepared<Target> prepareNormGrad(const KernelSpec &spec) {
  Result<shapes::NormShape> read = centred ? shapes::readLayerNormGrad(spec) : shapes::readRmsNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      NormGradOperands<T, S, centred> of{};
      of.grad = static_cast<const T *>(operands[0]), of.x = static_cast<const T *>(operands[1]);
      of.scale = static_cast<const T *>(operands[2]);
      of.mean = centred ? static_cast<const S *>(operands[3]) : nullptr;
      of.invStd = static_cast<const S *>(operands[centred ? 4 : 3]);
      void *const *outputs = operands + (centred ? 5 : 4);
      of.dx = static_cast<T *>(outputs[0]);
      of.rows = s.rows, of.n = s.n;
      runNormGrad(launch, of, static_cast<T *>(outputs[1]), centred ? static_cast<T *>(outputs[2]) : nullptr);
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
