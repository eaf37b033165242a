// adamw, adam, sgd and momentum with torch's formulas (torch/optim: _single_tensor_adam and friends, no amsgrad).
#include "kernels/cpu/Shapes.h"

namespace zc::cpu {
namespace {

/// One parameter. `m` and `v` are null where the rule has none.
template <typename P> void update(const OptimizerShape &s, const StepContext &context, P g, P &p, P *m, P *v) {
  auto lr = static_cast<P>(context.learningRate), decay = static_cast<P>(s.weightDecay);
  if (s.rule == Rule::adamw)
    p *= static_cast<P>(1 - context.learningRate * s.weightDecay);
  else
    g += decay * p;
  if (s.rule == Rule::sgd) {
    p -= lr * g;
    return;
  }
  if (s.rule == Rule::momentum) {
    *m = static_cast<P>(s.momentum) * *m + g;
    p -= lr * *m;
    return;
  }
  auto step = static_cast<double>(context.step - context.skipped);
  double correction1 = 1 - std::pow(s.beta1, step), correction2 = std::sqrt(1 - std::pow(s.beta2, step));
  *m += (g - *m) * static_cast<P>(1 - s.beta1);
  *v = *v * static_cast<P>(s.beta2) + static_cast<P>(1 - s.beta2) * g * g;
  double eps = s.epsUncorrected ? s.eps / correction2 : s.eps;
  P denominator = std::sqrt(*v) / static_cast<P>(correction2) + static_cast<P>(eps);
  p -= static_cast<P>(context.learningRate / correction1) * (*m / denominator);
}

template <typename G, typename P> Prepared prepareTyped(const OptimizerShape &shape) {
  return makeKernel([s = shape](void *const *operands, const StepContext &context) {
    P factor = *as<float>(operands[1]);
    P *p = as<P>(operands[2]), *m = s.moments > 0 ? as<P>(operands[3]) : nullptr;
    P *v = s.moments > 1 ? as<P>(operands[4]) : nullptr;
    for (int64_t i = 0; i < s.n && !std::isnan(factor); ++i)
      update<P>(s, context, static_cast<P>(load(as<G>(operands[0])[i])) * factor, p[i], m ? m + i : nullptr,
                v ? v + i : nullptr);
    if (s.out)
      withFloat(*s.out, [&](auto tag) {
        using O = TypeOf<decltype(tag)>;
        for (int64_t i = 0; i < s.n; ++i)
          as<O>(operands[3 + s.moments])[i] = store<O>(static_cast<Compute<O>>(p[i]));
      });
  });
}

template <Rule rule> Prepared prepareOptimizer(const KernelSpec &spec) {
  Result<OptimizerShape> read = readOptimizer(spec, rule);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->grad, [&](auto tag) {
    using G = TypeOf<decltype(tag)>;
    return read->param == DType::f64 ? prepareTyped<G, double>(*read) : prepareTyped<G, float>(*read);
  });
}

} // namespace

void addOptimizer(KernelRegistry &registry) {
  registry.add("adamw", prepareOptimizer<Rule::adamw>);
  registry.add("adam", prepareOptimizer<Rule::adam>);
  registry.add("sgd", prepareOptimizer<Rule::sgd>);
  registry.add("momentum", prepareOptimizer<Rule::momentum>);
}

} // namespace zc::cpu
