//===- Optimizer.h - what an update makes of one parameter -----------------------===//
//
// torch's formulas (torch/optim: _single_tensor_adam and friends, no amsgrad). fma stands where the fast CPU kernels
// multiply and add in one instruction, so that plain and fast kernels on CPUs and GPUs give the same bits: an update
// may run on the host or on the device.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "kernels/UpdateRule.h"
#include "kernels/formula/Elements.h"

namespace zc::formula {

/// A rule with its numbers, as a plan has them.
struct OptimizerRule {
  UpdateRule rule;
  double beta1, beta2, eps, weightDecay, momentum, lrScale; ///< lrScale: of the run's rate
  bool epsUncorrected; ///< eps is added to sqrt(v) instead of sqrt(v / (1 - beta2^t))
};

/// A step's numbers, the same for all elements; P is float, or double for f64 parameters.
template <typename P> struct OptimizerStep {
  P factor, shrink, decay, beta2, oneMinusBeta1, oneMinusBeta2, invCorrection2, eps, stepSize, lr, momentum;
};

/// x^n, n >= 0, by products alone: the library functions of two processors differ in the last bit.
ZC_HD double powerOf(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, x *= x)
    result = n & 1 ? result * x : result;
  return result;
}

template <typename P> ZC_HD OptimizerStep<P> stepOf(const OptimizerRule &r, const StepContext &context, P factor) {
  int64_t step = context.step - context.skipped;
  double lr = context.learningRate * r.lrScale;
  double correction1 = 1 - powerOf(r.beta1, step), correction2 = std::sqrt(1 - powerOf(r.beta2, step));
  OptimizerStep<P> s{};
  s.factor = factor;
  s.shrink = static_cast<P>(1 - lr * r.weightDecay);
  s.decay = static_cast<P>(r.weightDecay);
  s.beta2 = static_cast<P>(r.beta2);
  s.oneMinusBeta1 = static_cast<P>(1 - r.beta1);
  s.oneMinusBeta2 = static_cast<P>(1 - r.beta2);
  s.invCorrection2 = static_cast<P>(1 / correction2);
  s.eps = static_cast<P>(r.epsUncorrected ? r.eps / correction2 : r.eps);
  s.stepSize = static_cast<P>(lr / correction1);
  s.lr = static_cast<P>(lr);
  s.momentum = static_cast<P>(r.momentum);
  return s;
}

/// One parameter p with its gradient and moments; sgd has none, momentum has m.
template <typename P> ZC_HD void updateOne(UpdateRule rule, const OptimizerStep<P> &s, P gradient, P &p, P *m, P *v) {
  P g = gradient * s.factor;
  if (rule == UpdateRule::adamw)
    p *= s.shrink;
  else if (s.decay != 0) // of a parameter that is infinite it would be NaN
    g = std::fma(s.decay, p, g);
  if (rule == UpdateRule::sgd || rule == UpdateRule::momentum) {
    if (rule == UpdateRule::momentum)
      *m = g = std::fma(s.momentum, *m, g);
    p = std::fma(-s.lr, g, p);
    return;
  }
  *m = std::fma(g - *m, s.oneMinusBeta1, *m);
  *v = std::fma(g * g, s.oneMinusBeta2, *v * s.beta2);
  P denominator = std::fma(std::sqrt(*v), s.invCorrection2, s.eps);
  p = std::fma(-s.stepSize, *m / denominator, p);
}

} // namespace zc::formula
