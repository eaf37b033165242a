// gelu, its gradient and silu's.
#include "kernels/formula/Activation.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cpu {
namespace {

Prepared prepareGelu(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkActivation(spec, 1));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), tanh = spec.getInt("tanh", 0) != 0](void *const *operands,
                                                                                               const StepContext &) {
      for (int64_t i = 0; i < n; ++i)
        as<T>(operands[1])[i] = store<T>(gelu(load(as<T>(operands[0])[i]), tanh));
    });
  });
}

/// d = grad * slope(input).
template <typename Slope> Prepared prepareSlope(const KernelSpec &spec, Slope slope) {
  ZC_RETURN_IF_ERROR(checkActivation(spec, 2));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), slope](void *const *operands, const StepContext &) {
      for (int64_t i = 0; i < n; ++i)
        as<T>(operands[2])[i] = store<T>(load(as<T>(operands[0])[i]) * slope(load(as<T>(operands[1])[i])));
    });
  });
}

Prepared prepareGeluGrad(const KernelSpec &spec) {
  return prepareSlope(spec, [tanh = spec.getInt("tanh", 0) != 0](auto x) { return geluSlope(x, tanh); });
}
Prepared prepareSiluGrad(const KernelSpec &spec) {
  return prepareSlope(spec, [](auto x) { return siluSlope(x); });
}

} // namespace

void addActivation(KernelRegistry &registry) {
  registry.add("gelu", prepareGelu, elementwise());
  registry.add("gelu_grad", prepareGeluGrad, elementwise());
  registry.add("silu_grad", prepareSiluGrad, elementwise());
}

} // namespace zc::cpu
