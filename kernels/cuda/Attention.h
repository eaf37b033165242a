//===- Attention.h - attention and its gradient, where no library takes the spec ------===//
//
// Heads of up to 128 numbers of 16 bits are multiplied on tensor cores (CoreAttention.h). Here is what is left: f32 and
// f64, wider heads. A block takes kAttentionTile queries (forward, and for their gradient) or keys (for the
// gradients of keys and values) at once, so that what it reads of the other side serves all of them. Scores of a tile
// stand in the workspace; so many tiles are launched at once as 32 MiB hold. What several queries add to a key is added
// in order by one thread: the same bits every time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreAttentionGrad.h"

namespace zc::cuda {

using namespace formula;

constexpr int kAttentionThreads = 128;

/// A tile of queries.
template <typename T> struct AttentionBody {
  AttentionPlaces<T> a;
  HeadRows<const T> q, k, v;
  HeadRows<T> y;
  void *lse; ///< f32, or f64 for f64
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const shapes::AttentionShape &s = a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.queries);
    const int64_t keyHead = a.keyHeadOf(tile.head), row = tile.head * s.queries + tile.first;
    const A lowest = a.lowest();
    A *p = scores + index * kTile * s.keys;
    const T *queries = q.at(tile.head, s.heads, tile.first), *keys = k.at(keyHead, s.keyHeads, 0);
    block.forEach(s.keys, [&](int64_t j) {
      A dots[kTile];
      if (j >= s.firstKey(tile.first) && j < s.endKey(tile.first + tile.count - 1))
        a.multiply(queries, q.row, tile.count, keys + j * k.row, s.depth, dots);
      for (int r = 0; r < tile.count; ++r) {
        int64_t i = tile.first + r;
        p[r * s.keys + j] = a.isHidden(i, j) ? lowest : a.score(dots[r]) + a.added(tile.head, i, j);
      }
    });
    A totals[kTile] = {};
    const Words drawn = a.drawn(frame); // not before: registers
    for (int r = 0; r < tile.count; ++r) {
      A *own = p + r * s.keys;
      A top = block.template reduce<MaxOf>(s.keys, lowest, [&](int64_t j) { return own[j]; });
      totals[r] = block.template reduce<AddOf>(s.keys, A(0), [&](int64_t j) {
        const A e = top == lowest ? A(0) : std::exp(own[j] - top);
        own[j] = e * a.factor(drawn, row + r, j);
        return e;
      });
      block.once([&] { static_cast<A *>(lse)[row + r] = totals[r] == 0 ? lowest : top + std::log(totals[r]); });
    }
    block.sync();
    const T *values = v.at(keyHead, s.keyHeads, 0);
    T *results = y.at(tile.head, s.heads, tile.first);
    block.forEach(s.valueDepth, [&](int64_t d) {
      A sums[kTile] = {};
      a.addWeighted(p, s.keys, tile.count, values + d, v.row, s.keys, sums);
      for (int r = 0; r < tile.count; ++r)
        results[r * y.row + d] = store<T>(static_cast<Compute<T>>(totals[r] == 0 ? A(0) : sums[r] / totals[r]));
    });
  }
};

/// What both bodies of the gradient read. With P = exp(scores - lse), over their sum where lse is rough, delta =
/// rowsum(grad * output): dS = P (grad V^T -
/// delta) scale, with a softcap times what scores grow by; dQ = dS K; dK = dS^T Q; dV = P^T grad.
template <typename T> struct AttentionGradients {
  using A = Score<T>;
  AttentionPlaces<T> a;
  HeadRows<const T> grad, q, k, v;
  const void *lse;
  A *deltas;  ///< of all rows
  A *weights; ///< of all rows: the sum of them where lse is rough

  ZC_HD bool isRough(int64_t row) const { return shapes::AttentionShape::isRough(static_cast<const A *>(lse)[row]); }
  /// e^(score - lse) of query `row` (i of its head) and key j, from their product.
  ZC_HD A power(int64_t head, int64_t row, int64_t i, int64_t j, A product) const {
    A sum = static_cast<const A *>(lse)[row];
    if (sum == a.lowest() || a.isHidden(i, j))
      return 0;
    return std::exp(a.score(product) + a.added(head, i, j) - sum);
  }
  /// P.
  ZC_HD A weight(int64_t head, int64_t row, int64_t i, int64_t j, A product) const {
    const A p = power(head, row, i, j, product);
    return p != 0 && isRough(row) ? p / weights[row] : p;
  }
  /// Of a product of the result's gradient and a value. Of a query and its key it is times `scale`, and what their
  /// score grows by.
  ZC_HD A maskSlope(A weight, A product, A delta) const { return weight == 0 ? A(0) : weight * (product - delta); }
  ZC_HD A slope(A weight, A score, A product, A delta) const {
    return maskSlope(weight, product, delta) * a.growth(score) * static_cast<A>(a.s.scale);
  }
};

/// A tile of queries: deltas and dQ.
template <typename T> struct QueryGradBody {
  AttentionGradients<T> g;
  HeadRows<const T> output;
  HeadRows<T> dq;
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const shapes::AttentionShape &s = g.a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.queries);
    const int64_t keyHead = g.a.keyHeadOf(tile.head), row = tile.head * s.queries + tile.first;
    A *slopes = scores + index * kTile * s.keys;
    const Words drawn = g.a.drawn(frame);
    A deltas[kTile] = {};
    const T *grads = g.grad.at(tile.head, s.heads, tile.first), *queries = g.q.at(tile.head, s.heads, tile.first);
    for (int r = 0; r < tile.count; ++r) {
      const T *mine = grads + r * g.grad.row, *out = output.at(tile.head, s.heads, tile.first + r);
      deltas[r] = block.template reduce<AddOf>(
          s.valueDepth, A(0), [&](int64_t d) { return static_cast<A>(load(mine[d])) * static_cast<A>(load(out[d])); });
      block.once([&] { g.deltas[row + r] = deltas[r]; });
    }
    const T *keys = g.k.at(keyHead, s.keyHeads, 0), *keyValues = g.v.at(keyHead, s.keyHeads, 0);
    for (int r = 0; r < tile.count; ++r) {
      if (!g.isRough(row + r))
        continue;
      const A sum = block.template reduce<AddOf>(s.keys, A(0), [&](int64_t j) {
        A product[kTile];
        g.a.multiply(queries + r * g.q.row, g.q.row, 1, keys + j * g.k.row, s.depth, product);
        return g.power(tile.head, row + r, tile.first + r, j, product[0]);
      });
      block.once([&] { g.weights[row + r] = sum; });
    }
    block.sync();
    block.forEach(s.keys, [&](int64_t j) {
      A products[kTile], values[kTile];
      g.a.multiply(queries, g.q.row, tile.count, keys + j * g.k.row, s.depth, products);
      g.a.multiply(grads, g.grad.row, tile.count, keyValues + j * g.v.row, s.valueDepth, values);
      for (int r = 0; r < tile.count; ++r)
        slopes[r * s.keys + j] = g.slope(g.weight(tile.head, row + r, tile.first + r, j, products[r]), products[r],
                                         values[r] * g.a.factor(drawn, row + r, j), deltas[r]);
    });
    block.sync();
    T *results = dq.at(tile.head, s.heads, tile.first);
    block.forEach(s.depth, [&](int64_t d) {
      A sums[kTile] = {};
      g.a.addWeighted(slopes, s.keys, tile.count, keys + d, g.k.row, s.keys, sums);
      for (int r = 0; r < tile.count; ++r)
        results[r * dq.row + d] = store<T>(static_cast<Compute<T>>(sums[r]));
    });
  }
};

/// A tile of keys: dK and dV, over the queries of all heads that share them.
template <typename T> struct KeyGradBody {
  AttentionGradients<T> g;
  HeadRows<T> dk, dv;
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const shapes::AttentionShape &s = g.a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.keys);
    const int64_t rows = g.a.group() * s.queries;
    const int64_t firstHead = tile.head / s.keyHeads * s.heads + tile.head % s.keyHeads * g.a.group();
    const int64_t firstRow = firstHead * s.queries;
    A *weights = scores + index * 2 * kTile * rows, *slopes = weights + kTile * rows;
    const Words drawn = g.a.drawn(frame);
    const T *keys = g.k.at(tile.head, s.keyHeads, tile.first), *keyValues = g.v.at(tile.head, s.keyHeads, tile.first);
    block.forEach(rows, [&](int64_t i) {
      A products[kTile], values[kTile];
      int64_t row = firstRow + i, head = firstHead + i / s.queries;
      g.a.multiply(keys, g.k.row, tile.count, g.q.at(head, s.heads, i % s.queries), s.depth, products);
      g.a.multiply(keyValues, g.v.row, tile.count, g.grad.at(head, s.heads, i % s.queries), s.valueDepth, values);
      for (int r = 0; r < tile.count; ++r) {
        A weight = g.weight(head, row, i % s.queries, tile.first + r, products[r]);
        const A factor = g.a.factor(drawn, row, tile.first + r);
        weights[r * rows + i] = weight * factor;
        slopes[r * rows + i] = g.slope(weight, products[r], values[r] * factor, g.deltas[row]);
      }
    });
    block.sync();
    auto write = [&](const A *from, const HeadRows<const T> &x, const HeadRows<T> &to, int64_t depth) {
      T *results = to.at(tile.head, s.keyHeads, tile.first);
      block.forEach(depth, [&](int64_t d) {
        A sums[kTile] = {};
        for (int64_t h = 0; h < g.a.group(); ++h)
          g.a.addWeighted(from + h * s.queries, rows, tile.count, x.at(firstHead + h, s.heads, 0) + d, x.row, s.queries,
                          sums);
        for (int r = 0; r < tile.count; ++r)
          results[r * to.row + d] = store<T>(static_cast<Compute<T>>(sums[r]));
      });
    };
    write(slopes, g.q, dk, s.depth);
    write(weights, g.grad, dv, s.valueDepth);
  }
};

/// A tile of the mask's queries, over the batches and heads that share them. Each element is one thread's sum.
template <typename T> struct MaskGradBody {
  AttentionGradients<T> g;
  Score<T> *dMask;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const shapes::AttentionShape &s = g.a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.queries);
    const int64_t maskHeads = s.maskHeads(), batches = s.batch / s.maskBatches(), heads = s.heads / maskHeads;
    const int64_t firstHead = tile.head / maskHeads * s.heads + tile.head % maskHeads;
    const Words drawn = g.a.drawn(frame);
    block.forEach(s.keys, [&](int64_t j) {
      A sums[kTile] = {}, products[kTile], values[kTile];
      for (int64_t b = 0; b < batches; ++b)
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t head = firstHead + b * s.heads + h, keyHead = g.a.keyHeadOf(head),
                        row = head * s.queries + tile.first;
          g.a.multiply(g.q.at(head, s.heads, tile.first), g.q.row, tile.count, g.k.at(keyHead, s.keyHeads, j), s.depth,
                       products);
          g.a.multiply(g.grad.at(head, s.heads, tile.first), g.grad.row, tile.count, g.v.at(keyHead, s.keyHeads, j),
                       s.valueDepth, values);
          for (int r = 0; r < tile.count; ++r)
            sums[r] += g.maskSlope(g.weight(head, row + r, tile.first + r, j, products[r]),
                                   values[r] * g.a.factor(drawn, row + r, j), g.deltas[row + r]);
        }
      for (int r = 0; r < tile.count; ++r)
        dMask[(tile.head * s.queries + tile.first + r) * s.keys + j] = sums[r];
    });
  }
};

/// body.firstTile = 0, atOnce, ... in launches of `atOnce` tiles.
template <typename Launcher, typename Body>
void overTiles(const Launcher &launch, int64_t tiles, int64_t atOnce, Body body) {
  for (int64_t first = 0; first < tiles; first += atOnce) {
    body.firstTile = first;
    launch.template blocks<kAttentionThreads>(std::min(atOnce, tiles - first), body);
  }
}

template <typename Target> Prepared<Target> prepareAttention(const KernelSpec &spec) {
  Result<shapes::AttentionShape> read = shapes::readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<shapes::AttentionTensors> located = shapes::readAttentionTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read, t = *located](void *const *operands, const auto &launch) {
      if constexpr (sizeof(T) == 2)
        if (isOnTensorCores(s))
          return launchCoreAttention<T>(s, t, operands, launch);
      AttentionTiles tiles(s);
      overTiles(launch, tiles.queryTiles, tiles.queriesAtOnce,
                AttentionBody<T>{{s, s.hasMask ? operands[3] : nullptr},
                                 {t.query, operands},
                                 {t.key, operands},
                                 {t.value, operands},
                                 {t.result, operands},
                                 operands[t.lse],
                                 static_cast<Score<T> *>(launch.workspace()),
                                 0});
    });
  });
}

template <typename T, typename Launcher>
void launchGradients(const AttentionGradients<T> &g, const shapes::AttentionGradTensors &t, void *const *operands,
                     const Launcher &launch) {
  const shapes::AttentionShape &s = g.a.s;
  if constexpr (sizeof(T) == 2)
    if (isOnTensorCores(s))
      return launchCoreAttentionGrad<T>(s, t, operands, launch);
  const AttentionTiles tiles(s);
  Score<T> *scores = g.weights + tiles.rows;
  overTiles(launch, tiles.queryTiles, tiles.queriesAtOnce,
            QueryGradBody<T>{g, {t.output, operands}, {t.dQuery, operands}, scores, 0});
  overTiles(launch, tiles.keyTiles, tiles.keysAtOnce,
            KeyGradBody<T>{g, {t.dKey, operands}, {t.dValue, operands}, scores, 0});
  if (!s.hasMaskGrad)
    return;
  const int64_t maskTiles = s.maskBatches() * s.maskHeads() * ((s.queries + kAttentionTile - 1) / kAttentionTile);
  overTiles(launch, maskTiles, maskTiles, MaskGradBody<T>{g, static_cast<Score<T> *>(operands[t.dMask]), 0});
}

template <typename Target> Prepared<Target> prepareAttentionGrad(const KernelSpec &spec) {
  Result<shapes::AttentionShape> read = shapes::readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<shapes::AttentionGradTensors> located = shapes::readAttentionGradTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read, t = *located](void *const *operands, const auto &launch) {
      const AttentionGradients<T> g{{s, s.hasMask ? operands[6] : nullptr},
                                    {t.grad, operands},
                                    {t.query, operands},
                                    {t.key, operands},
                                    {t.value, operands},
                                    operands[5],
                                    static_cast<Score<T> *>(launch.workspace()),
                                    static_cast<Score<T> *>(launch.workspace()) + AttentionTiles(s).rows};
      launchGradients(g, t, operands, launch);
    });
  });
}

template <typename Target, typename Registry> void addAttentions(Registry &registry) {
  registry.add("attention", prepareAttention<Target>);
  registry.add("attention_grad", prepareAttentionGrad<Target>);
}

} // namespace zc::cuda
