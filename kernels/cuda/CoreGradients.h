//===- CoreGradients.h - what the gradients of attention on tensor cores read ---------------===//
#pragma once

#include "kernels/cuda/CoreAttention.h"

namespace zc::cuda {

/// With P = 2^(scale * product + what is added - lse) and delta = rowsum(grad * output): dS = P (grad V^T - delta).
template <typename T, bool kMasked> struct CoreGradients {
  CoreScores<T, kMasked> scores;
  HeadRows<const T> grad, q, k, v;
  const float *lse;
  float *deltas, *exponents; ///< of all rows; -lse as a power of two
  bool packed;

  /// Products become P = 2^(scale * product + exponent), exactly 0 of what is hidden. exponent(at, tall, e, other);
  /// place(row, other, f) is f(query, key).
  template <int D, typename Warp, typename Exponent, typename Place>
  ZC_HD void weigh(const Warp &warp, CoreSums<Warp, D> &sums, bool isPlain, int64_t maskAt, const Exponent &exponent,
                   const Place &place) const {
    if (isPlain)
      return forSums<D>(warp, [&](int at, int tall, int half, int e, int, int other) {
        float &p = sums[tall][half].of[at][e];
        p = powerOfTwo(std::fma(p, scores.power, exponent(at, tall, e, other)));
      });
    forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
      float &p = sums[tall][half].of[at][e];
      const float added = place(row, other, [&](int i, int j) { return scores.added(maskAt, i, j); });
      p = powerOfTwo(std::fma(p, scores.power, exponent(at, tall, e, other) + added));
    });
  }
};

} // namespace zc::cuda
