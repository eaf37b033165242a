//===- Activation.h - gelu, its slope and silu's, of one element ----------------===//
#pragma once

#include "runtime/base/HostDevice.h"

#include <cmath>

namespace zc::formula {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kCubic = 0.044715;

template <typename T> ZC_HD T gelu(T x, bool tanh) {
  if (tanh)
    return T(0.5) * x * (1 + std::tanh(T(kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x)));
  return T(0.5) * x * (1 + std::erf(x * T(kSqrtHalf)));
}

template <typename T> ZC_HD T geluSlope(T x, bool tanh) {
  if (tanh) {
    T t = std::tanh(T(kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x));
    return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * T(kSqrtTwoOverPi) * (1 + 3 * T(kCubic) * x * x);
  }
  return T(0.5) * (1 + std::erf(x * T(kSqrtHalf))) + x * T(kInvSqrtTwoPi) * std::exp(T(-0.5) * x * x);
}

template <typename T> ZC_HD T siluSlope(T x) {
  T s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

} // namespace zc::formula
