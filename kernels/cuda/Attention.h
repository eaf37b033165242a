//===- Attention.h - attention and its gradient, where no library takes the spec ------===//
//
// A block takes kAttentionTile queries (forward, and for their gradient) or keys (for the gradients of keys and values)
// at once, so that what it reads of the other side serves all of them. Scores of a tile stand in the workspace; so many
// tiles are launched at once as 32 MiB hold. What several queries add to a key is added in order by one thread: the
// same bits every time. Limit: arithmetic outside of tensor cores; a fallback for masks, odd heads, f32 and f64.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/Launch.h"
#include "kernels/formula/Philox.h"

namespace zc::cuda {

using namespace formula;

constexpr int kAttentionThreads = 128;

/// What scores are computed in.
template <typename T> using Score = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Tensors [batch, heads, rows, depth] and what is added to their scores.
template <typename T> struct AttentionPlaces {
  using A = Score<T>;
  cpu::AttentionShape s;
  const void *mask;

  static constexpr int kTile = static_cast<int>(kAttentionTile);
  static ZC_HD A lowest() { return -std::numeric_limits<A>::infinity(); }

  /// Tile `tile` of `rows` rows per head: its head (of all batches), its first row there, and how many it has.
  struct Tile {
    int64_t head, first;
    int count;
    ZC_HD Tile(int64_t tile, int64_t rows) {
      int64_t tiles = (rows + kAttentionTile - 1) / kAttentionTile;
      head = tile / tiles;
      first = tile % tiles * kAttentionTile;
      count = static_cast<int>(rows - first < kAttentionTile ? rows - first : kAttentionTile);
    }
  };
  ZC_HD int64_t group() const { return s.heads / s.keyHeads; }
  /// The key head, of all batches, of query head `head` of all batches.
  ZC_HD int64_t keyHeadOf(int64_t head) const { return head / s.heads * s.keyHeads + head % s.heads / group(); }
  /// What dropout draws in a step, and multiplies the probability of key j by in `row` of all.
  ZC_HD Words drawn(const Frame &frame) const {
    return s.dropout == 0 ? Words{} : randomKey(s.dropoutId, frame.context->step, frame.context->micro, s.rank, s.seed);
  }
  ZC_HD A factor(const Words &key, int64_t row, int64_t j) const {
    return s.dropout == 0 ? A(1) : static_cast<A>(dropoutFactor(key, row * s.keys + j, s.dropout));
  }
  ZC_HD bool isHidden(int64_t i, int64_t j) const { return s.causal && j > i + s.keys - s.queries; }
  /// What is added to score (head, i, j).
  ZC_HD A added(int64_t head, int64_t i, int64_t j) const {
    if (isHidden(i, j))
      return lowest();
    if (!s.hasMask)
      return 0;
    int64_t at = head / s.heads * s.maskStrides[0] + head % s.heads * s.maskStrides[1] + i * s.maskStrides[2] +
                 j * s.maskStrides[3];
    if (s.mask == DType::boolean)
      return static_cast<const uint8_t *>(mask)[at] ? A(0) : lowest();
    if (s.mask == DType::f32)
      return static_cast<A>(static_cast<const float *>(mask)[at]);
    return static_cast<A>(load(static_cast<const T *>(mask)[at]));
  }
  /// dots[r] = row r of `rows` times `row`.
  static ZC_HD void multiply(const T *rows, int count, const T *row, int64_t depth, A (&dots)[kTile]) {
    for (int r = 0; r < kTile; ++r)
      dots[r] = 0;
    for (int64_t d = 0; d < depth; ++d) {
      A other = static_cast<A>(load(row[d]));
      for (int r = 0; r < kTile; ++r)
        if (r < count)
          dots[r] += static_cast<A>(load(rows[r * depth + d])) * other;
    }
  }
  /// sums[r] = sum of weights[r][j] * x[j][d] over j in [0, n). What weighs nothing does not count, not even as NaN.
  static ZC_HD void addWeighted(const A *weights, int count, const T *x, int64_t n, int64_t depth, int64_t d,
                                A (&sums)[kTile]) {
    for (int r = 0; r < kTile; ++r)
      sums[r] = 0;
    for (int64_t j = 0; j < n; ++j) {
      A other = static_cast<A>(load(x[j * depth + d]));
      for (int r = 0; r < kTile; ++r)
        if (r < count && weights[r * n + j] != 0)
          sums[r] += weights[r * n + j] * other;
    }
  }
};

/// A tile of queries.
template <typename T> struct AttentionBody {
  AttentionPlaces<T> a;
  const T *q, *k, *v;
  T *y;
  void *lse; ///< f32, or f64 for f64
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const cpu::AttentionShape &s = a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.queries);
    const int64_t keyHead = a.keyHeadOf(tile.head), row = tile.head * s.queries + tile.first;
    const A lowest = a.lowest();
    A *p = scores + index * kTile * s.keys;
    block.forEach(s.keys, [&](int64_t j) {
      A dots[kTile];
      if (!a.isHidden(tile.first + tile.count - 1, j))
        a.multiply(q + row * s.depth, tile.count, k + (keyHead * s.keys + j) * s.depth, s.depth, dots);
      for (int r = 0; r < tile.count; ++r) {
        int64_t i = tile.first + r;
        p[r * s.keys + j] = a.isHidden(i, j) ? lowest : static_cast<A>(s.scale) * dots[r] + a.added(tile.head, i, j);
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
    block.forEach(s.valueDepth, [&](int64_t d) {
      A sums[kTile];
      a.addWeighted(p, tile.count, v + keyHead * s.keys * s.valueDepth, s.keys, s.valueDepth, d, sums);
      for (int r = 0; r < tile.count; ++r)
        y[(row + r) * s.valueDepth + d] =
            store<T>(static_cast<Compute<T>>(totals[r] == 0 ? A(0) : sums[r] / totals[r]));
    });
  }
};

/// What both bodies of the gradient read. With P = exp(scores - lse), delta = rowsum(grad * output): dS = P (grad V^T -
/// delta) scale; dQ = dS K; dK = dS^T Q; dV = P^T grad.
template <typename T> struct AttentionGradients {
  using A = Score<T>;
  AttentionPlaces<T> a;
  const T *grad, *q, *k, *v;
  const void *lse;
  A *deltas; ///< of all rows

  /// P of query `row` (i of its head) and key j, from their product.
  ZC_HD A weight(int64_t head, int64_t row, int64_t i, int64_t j, A product) const {
    A sum = static_cast<const A *>(lse)[row];
    if (sum == a.lowest() || a.isHidden(i, j))
      return 0;
    return std::exp(static_cast<A>(a.s.scale) * product + a.added(head, i, j) - sum);
  }
  ZC_HD A maskSlope(A weight, A product, A delta) const { return weight == 0 ? A(0) : weight * (product - delta); }
  ZC_HD A slope(A weight, A product, A delta) const {
    return maskSlope(weight, product, delta) * static_cast<A>(a.s.scale);
  }
};

/// A tile of queries: deltas and dQ.
template <typename T> struct QueryGradBody {
  AttentionGradients<T> g;
  const T *output;
  T *dq;
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const cpu::AttentionShape &s = g.a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.queries);
    const int64_t keyHead = g.a.keyHeadOf(tile.head), row = tile.head * s.queries + tile.first;
    A *slopes = scores + index * kTile * s.keys;
    const Words drawn = g.a.drawn(frame);
    A deltas[kTile] = {};
    for (int r = 0; r < tile.count; ++r) {
      const T *mine = g.grad + (row + r) * s.valueDepth, *out = output + (row + r) * s.valueDepth;
      deltas[r] = block.template reduce<AddOf>(
          s.valueDepth, A(0), [&](int64_t d) { return static_cast<A>(load(mine[d])) * static_cast<A>(load(out[d])); });
      block.once([&] { g.deltas[row + r] = deltas[r]; });
    }
    block.forEach(s.keys, [&](int64_t j) {
      A products[kTile], values[kTile];
      g.a.multiply(g.q + row * s.depth, tile.count, g.k + (keyHead * s.keys + j) * s.depth, s.depth, products);
      g.a.multiply(g.grad + row * s.valueDepth, tile.count, g.v + (keyHead * s.keys + j) * s.valueDepth, s.valueDepth,
                   values);
      for (int r = 0; r < tile.count; ++r)
        slopes[r * s.keys + j] = g.slope(g.weight(tile.head, row + r, tile.first + r, j, products[r]),
                                         values[r] * g.a.factor(drawn, row + r, j), deltas[r]);
    });
    block.sync();
    block.forEach(s.depth, [&](int64_t d) {
      A sums[kTile];
      g.a.addWeighted(slopes, tile.count, g.k + keyHead * s.keys * s.depth, s.keys, s.depth, d, sums);
      for (int r = 0; r < tile.count; ++r)
        dq[(row + r) * s.depth + d] = store<T>(static_cast<Compute<T>>(sums[r]));
    });
  }
};

/// A tile of keys: dK and dV, over the queries of all heads that share them.
template <typename T> struct KeyGradBody {
  AttentionGradients<T> g;
  T *dk, *dv;
  Score<T> *scores;
  int64_t firstTile;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Score<T>;
    constexpr int kTile = AttentionPlaces<T>::kTile;
    const cpu::AttentionShape &s = g.a.s;
    const typename AttentionPlaces<T>::Tile tile(firstTile + index, s.keys);
    const int64_t rows = g.a.group() * s.queries, key = tile.head * s.keys + tile.first;
    const int64_t firstHead = tile.head / s.keyHeads * s.heads + tile.head % s.keyHeads * g.a.group();
    const int64_t firstRow = firstHead * s.queries;
    A *weights = scores + index * 2 * kTile * rows, *slopes = weights + kTile * rows;
    const Words drawn = g.a.drawn(frame);
    block.forEach(rows, [&](int64_t i) {
      A products[kTile], values[kTile];
      int64_t row = firstRow + i, head = firstHead + i / s.queries;
      g.a.multiply(g.k + key * s.depth, tile.count, g.q + row * s.depth, s.depth, products);
      g.a.multiply(g.v + key * s.valueDepth, tile.count, g.grad + row * s.valueDepth, s.valueDepth, values);
      for (int r = 0; r < tile.count; ++r) {
        A weight = g.weight(head, row, i % s.queries, tile.first + r, products[r]);
        const A factor = g.a.factor(drawn, row, tile.first + r);
        weights[r * rows + i] = weight * factor;
        slopes[r * rows + i] = g.slope(weight, values[r] * factor, g.deltas[row]);
      }
    });
    block.sync();
    auto write = [&](const A *from, const T *x, T *to, int64_t depth) {
      block.forEach(depth, [&](int64_t d) {
        A sums[kTile];
        g.a.addWeighted(from, tile.count, x + firstRow * depth, rows, depth, d, sums);
        for (int r = 0; r < tile.count; ++r)
          to[(key + r) * depth + d] = store<T>(static_cast<Compute<T>>(sums[r]));
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
    const cpu::AttentionShape &s = g.a.s;
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
          g.a.multiply(g.q + row * s.depth, tile.count, g.k + (keyHead * s.keys + j) * s.depth, s.depth, products);
          g.a.multiply(g.grad + row * s.valueDepth, tile.count, g.v + (keyHead * s.keys + j) * s.valueDepth,
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
  Result<cpu::AttentionShape> read = cpu::readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
      void *const *outputs = operands + (s.hasMask ? 4 : 3);
      AttentionTiles tiles(s);
      overTiles(launch, tiles.queryTiles, tiles.queriesAtOnce,
                AttentionBody<T>{{s, operands[3]},
                                 of(0),
                                 of(1),
                                 of(2),
                                 static_cast<T *>(outputs[0]),
                                 outputs[1],
                                 static_cast<Score<T> *>(launch.workspace()),
                                 0});
    });
  });
}

template <typename Target> Prepared<Target> prepareAttentionGrad(const KernelSpec &spec) {
  Result<cpu::AttentionShape> read = cpu::readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
      void *const *outputs = operands + (s.hasMask ? 7 : 6);
      AttentionTiles tiles(s);
      auto *scores = static_cast<Score<T> *>(launch.workspace());
      AttentionGradients<T> g{{s, operands[6]}, of(0), of(1), of(2), of(3), operands[5], scores};
      scores += tiles.rows;
      overTiles(launch, tiles.queryTiles, tiles.queriesAtOnce,
                QueryGradBody<T>{g, of(4), static_cast<T *>(outputs[0]), scores, 0});
      overTiles(launch, tiles.keyTiles, tiles.keysAtOnce,
                KeyGradBody<T>{g, static_cast<T *>(outputs[1]), static_cast<T *>(outputs[2]), scores, 0});
      if (s.hasMaskGrad) {
        const int64_t maskTiles = s.maskBatches() * s.maskHeads() * ((s.queries + kAttentionTile - 1) / kAttentionTile);
        overTiles(launch, maskTiles, maskTiles, MaskGradBody<T>{g, static_cast<Score<T> *>(outputs[3]), 0});
      }
    });
  });
}

template <typename Target, typename Registry> void addAttentions(Registry &registry) {
  registry.add("attention", prepareAttention<Target>);
  registry.add("attention_grad", prepareAttentionGrad<Target>);
}

} // namespace zc::cuda
