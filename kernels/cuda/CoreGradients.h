//===- CoreGradients.h - what the gradients of attention on tensor cores read ---------------===//
#pragma once

#include "kernels/cuda/CoreAttention.h"

namespace zc::cuda {

/// Have tiles to whose scores nothing is added, and of which none is hidden, a loop of their own, without branches, so
/// that a step's powers are computed beside its products? Of wider heads there are no registers for it, and of
/// narrower ones it would take those of a third block.
template <int D, CoreForm kForm> constexpr bool kSplits = D == 64 && kForm == CoreForm::plain;
/// fn(integral_constant<bool, is a tile such a one?>)
template <int D, CoreForm kForm, typename Fn> ZC_HD void withPlainness(bool isPlain, const Fn &fn) {
  if constexpr (kSplits<D, kForm>)
    if (isPlain)
      return fn(std::true_type());
  fn(std::false_type());
}

/// f(step) for the steps of a tile; in a loop where they would take registers of each other's.
template <int D, CoreForm kForm, typename F> ZC_HD void forSteps(const F &f) {
  if constexpr (kForm == CoreForm::plain && D >= 64) {
    ZC_ROLLED
    for (int step = 0; step < CoreCut<D>::kSteps; ++step)
      f(step);
  } else {
    ZC_UNROLL
    for (int step = 0; step < CoreCut<D>::kSteps; ++step)
      f(step);
  }
}

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

  /// Products of queries and keys from these on become P = 2^(score + exponent), exactly 0 of what is hidden; a warp's
  /// rows are kRows. exponent(at, tall, e, other).
  template <int D, CoreSide kRows, typename Warp, typename Exponent>
  ZC_HD void weigh(const Warp &warp, CoreSums<Warp, D> &sums, bool isPlain, int64_t maskAt, int query, int key,
                   const Exponent &exponent) const {
    if (isPlain)
      return forSums<D>(warp, [&](int at, int tall, int half, int e, int, int other) {
        float &p = sums[tall][half].of[at][e];
        p = powerOfTwo(scoreAnd(p, exponent(at, tall, e, other)));
      });
    CoreSums<Warp, D> all;
    scores.template added<D, kRows>(warp, maskAt, query, key, all);
    forSums<D>(warp, [&](int at, int tall, int half, int e, int, int other) {
      float &p = sums[tall][half].of[at][e];
      const float added = all[tall][half].of[at][e];
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
