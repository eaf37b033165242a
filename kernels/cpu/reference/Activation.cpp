// gelu, its gradient and silu's.
#include "kernels/cpu/Support.h"

namespace zc::cpu {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kCubic = 0.044715;

template <typename T> T gelu(T x, bool tanh) {
  if (tanh)
    return T(0.5) * x * (1 + std::tanh(T(kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x)));
  return T(0.5) * x * (1 + std::erf(x * T(kSqrtHalf)));
}

template <typename T> T geluSlope(T x, bool tanh) {
  if (tanh) {
    T t = std::tanh(T(kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x));
    return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * T(kSqrtTwoOverPi) * (1 + 3 * T(kCubic) * x * x);
  }
  return T(0.5) * (1 + std::erf(x * T(kSqrtHalf))) + x * T(kInvSqrtTwoPi) * std::exp(T(-0.5) * x * x);
}

template <typename T> T siluSlope(T x) {
  T s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

Status check(const KernelSpec &spec, size_t inputs) {
  return Check(spec)
      .counts(inputs, 1)
      .that(
          [&] {
            for (const TensorType &type : spec.operands)
              if (!(type == spec.operands[0]) || !isComputeFloat(type.dtype))
                return false;
            return true;
          },
          "f32, bf16, f16 or f64 of one type")
      .done();
}

Prepared prepareGelu(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(check(spec, 1));
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
  ZC_RETURN_IF_ERROR(check(spec, 2));
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
  registry.add("gelu", prepareGelu);
  registry.add("gelu_grad", prepareGeluGrad);
  registry.add("silu_grad", prepareSiluGrad);
}

} // namespace zc::cpu
