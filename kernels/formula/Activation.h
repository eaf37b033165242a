//===- Activation.h - gelu, its slope and silu's, of one element ----------------===//
#pragma once

#include "base/HostDevice.h"

#include <cmath>

namespace zc::formula {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kCubic = 0.044715;

/// e^x. Of floats on a GPU by its instruction for powers of two: within |x| 1e-7 of it.
template <typename T> ZC_HD T exponential(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float))
    return __expf(x);
#endif
  return std::exp(x);
}

/// 1 / (1 + e^-x). Of floats on a GPU by its instructions for powers of two and reciprocals: within 2e-7 of one, in 5
/// instructions instead of 30, of which gelu has the time while memory moves.
template <typename T> ZC_HD T logistic(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float))
    return __fdividef(1.0f, 1.0f + __expf(-x));
#endif
  return 1 / (1 + std::exp(-x));
}

/// By tanh: (1 + tanh(u)) / 2 is the logistic function of 2u.
template <typename T> ZC_HD T gelu(T x, bool tanh) {
  if (tanh)
    return x * logistic(T(2 * kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x));
  return T(0.5) * x * (1 + std::erf(x * T(kSqrtHalf)));
}

template <typename T> ZC_HD T geluSlope(T x, bool tanh) {
  if (tanh) {
    T s = logistic(T(2 * kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x));
    return s + x * s * (1 - s) * T(2 * kSqrtTwoOverPi) * (1 + 3 * T(kCubic) * x * x);
  }
  return T(0.5) * (1 + std::erf(x * T(kSqrtHalf))) + x * T(kInvSqrtTwoPi) * std::exp(T(-0.5) * x * x);
}

/// A logit that never reaches +-cap (Gemma 2, arXiv 2408.00118), and the slope there, of what it became.
template <typename T> ZC_HD T capped(T x, T cap) { return cap * std::tanh(x / cap); }
template <typename T> ZC_HD T cappedSlope(T y, T cap) { return 1 - y / cap * (y / cap); }

template <typename T> ZC_HD T siluSlope(T x) {
  T s = logistic(x);
  return s * (1 + x * (1 - s));
}

} // namespace zc::formula
