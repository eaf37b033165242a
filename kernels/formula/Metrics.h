//===- Metrics.h - a block's sum of squares; the norm's last step ------------------===//
#pragma once

#include "kernels/formula/Elements.h"
#include "kernels/formula/NormSum.h"

namespace zc::formula {

/// What belongs to the block of eight partial sums.
ZC_HD double sumOfParts(const double (&part)[8]) {
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

/// The order of a block's sum is part of the contract (it is the same on every processor, bit for bit): eight partial
/// sums of every eighth element, then pairs. Squares of fp32 are exact in double.
template <typename T> ZC_HD double blockSum(const T *x) {
  double part[8] = {};
  for (int i = 0; i < kNormBlock; ++i) {
    double value = load(x[i]);
    part[i % 8] += value * value;
  }
  return sumOfParts(part);
}

/// What norm_finish makes of a sum of squares. With weights the gradients are numerators (`weight` is the sum of the
/// losses' weights over `terms`), scaled ones are multiplied by the loss scale: both are divided out, before and after
/// clipping.
struct ClipRule {
  bool clips, weighted, scaled;
  float maxNorm;
  double terms;
};
struct Clipped {
  float norm, factor;
};

/// The factor of gradients that are not all finite is NaN, by which updates know that they shall change nothing.
ZC_HD Clipped clip(const ClipRule &rule, double sumOfSquares, double weights, double lossScale) {
  double weight = rule.weighted ? weights / rule.terms : 1, scale = rule.scaled ? lossScale : 1;
  double whole = std::sqrt(sumOfSquares) / scale;
  auto norm = static_cast<float>(rule.weighted && weight != 0 ? whole / weight : whole);
  float factor = rule.clips ? rule.maxNorm / (norm + 1e-6f) : 1.0f;
  factor = factor > 1 ? 1 : factor; // NaN stays NaN, as torch's clamp
  if (weight == 0)                  // nothing counts: no gradient either
    factor = 0;
  else
    factor = static_cast<float>(factor / weight / scale);
  if (std::isnan(whole))
    factor = std::numeric_limits<float>::quiet_NaN();
  return {norm, factor};
}

} // namespace zc::formula
