// adamw, adam, sgd and momentum.
#include "kernels/cpu/Support.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
namespace {

template <typename G, typename P> Prepared prepareTyped(const OptimizerShape &shape) {
  return makeKernel([s = shape](void *const *operands, const StepContext &context) {
    auto step = stepOf<P>(s.rule, context, *as<float>(operands[1]));
    P *p = as<P>(operands[2]), *m = s.moments > 0 ? as<P>(operands[3]) : nullptr;
    P *v = s.moments > 1 ? as<P>(operands[4]) : nullptr;
    for (int64_t i = 0; i < s.n && !std::isnan(step.factor); ++i)
      updateOne<P>(s.rule.rule, step, static_cast<P>(load(as<G>(operands[0])[i])), p[i], m ? m + i : nullptr,
                   v ? v + i : nullptr);
    if (s.out)
      withFloat(*s.out, [&](auto tag) {
        using O = TypeOf<decltype(tag)>;
        for (int64_t i = 0; i < s.n; ++i)
          as<O>(operands[3 + s.moments])[i] = store<O>(static_cast<Compute<O>>(p[i]));
      });
  });
}

Prepared prepareOptimizer(const KernelSpec &spec) {
  Result<OptimizerShape> read = readOptimizer(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->grad, [&](auto tag) {
    using G = TypeOf<decltype(tag)>;
    return read->param == DType::f64 ? prepareTyped<G, double>(*read) : prepareTyped<G, float>(*read);
  });
}

} // namespace

void addOptimizer(KernelRegistry &registry) {
  for (const char *name : namesOf(UpdateRule()))
    registry.add(name, prepareOptimizer);
}

} // namespace zc::cpu
