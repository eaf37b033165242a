//===- CoreGradients.h - what the gradients of attention on tensor cores read ---------------===//
#pragma once

#include "kernels/cuda/CoreAttention.h"

namespace zc::cuda {

/// With P = 2^(score + what is added - lse) and delta = rowsum(grad * output): dS = P (grad V^T - delta), with a
/// softcap of scores times what these grow by with their products.
template <typename T, CoreForm kForm> struct CoreGradients {
  using Scores = CoreScores<T, kForm>;
  Scores scores;
  HeadRows<const T> grad, q, k, v;
  const float *lse;
  float *deltas, *exponents; ///< of all rows; -lse as a power of two
  bool packed;

  /// grad V^T becomes what dS is of P. delta(at, tall, e, other).
  template <int D, typename Warp, typename Delta>
  ZC_HD void steepen(const Warp &warp, const CoreSums<Warp, D> &products, CoreSums<Warp, D> &slopes,
                     const Delta &delta) const {
    forSums<D>(warp, [&](int at, int tall, int half, int e, int, int other) {
      float &slope = slopes[tall][half].of[at][e];
      slope -= delta(at, tall, e, other);
      if (scores.isCapped())
        slope *= scores.growth(products[tall][half].of[at][e]);
    });
  }

  /// Products become P = 2^(score + exponent), exactly 0 of what is hidden. exponent(at, tall, e, other);
  /// place(row, other, f) is f(query, key).
  template <int D, typename Warp, typename Exponent, typename Place>
  ZC_HD void weigh(const Warp &warp, CoreSums<Warp, D> &sums, bool isPlain, int64_t maskAt, const Exponent &exponent,
                   const Place &place) const {
    if (isPlain)
      return forSums<D>(warp, [&](int at, int tall, int half, int e, int, int other) {
        float &p = sums[tall][half].of[at][e];
        p = powerOfTwo(scoreAnd(p, exponent(at, tall, e, other)));
      });
    forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
      float &p = sums[tall][half].of[at][e];
      const float added = place(row, other, [&](int i, int j) { return scores.added(maskAt, i, j); });
      // Of numbers in the forward's order: beside -1e9 the score was rounded away, beside the exponent's 1e9 it would
      // stay.
      const float least = exponent(at, tall, e, other);
      p = powerOfTwo(Scores::kMasked ? scores.score(p) + added + least : scoreAnd(p, least + added));
    });
  }

private:
  ZC_HD float scoreAnd(float product, float exponent) const {
    return scores.isCapped() ? scores.score(product) + exponent : std::fma(product, scores.power, exponent);
  }
};

} // namespace zc::cuda
