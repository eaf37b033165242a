// constant, iota and loss_scale: kernels without inputs.
#include "kernels/cpu/Support.h"

#include <cstring>

namespace zc::cpu {
namespace {

template <typename T> T element(const KernelSpec &spec, const char *key) {
  if constexpr (Element<T>::isFloat)
    return store<T>(static_cast<Compute<T>>(spec.getReal(key, 0)));
  auto it = spec.attributes.find(key);
  const int64_t *integer = it == spec.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  // Saturates: a real far outside 64 bits must not be undefined behaviour.
  double real = std::min(std::max(spec.getReal(key, 0), -9.2e18), 9.2e18);
  return store<T>(static_cast<Compute<T>>(integer ? *integer : std::isnan(real) ? 0 : static_cast<int64_t>(real)));
}

/// Attribute `value` (a splat) or `data` (raw little-endian elements).
Prepared prepareConstant(const KernelSpec &spec) {
  std::string data = spec.getText("data");
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(0, 1)
          .that([&] { return spec.has("value") != spec.has("data"); }, "either 'value' or 'data'")
          .that([&] { return spec.has("value") || static_cast<int64_t>(data.size()) == spec.operands[0].numBytes(); },
                "'data' of the result's size")
          .done());
  const TensorType &type = spec.operands[0];
  if (!spec.has("value"))
    return makeKernel([data = std::move(data)](void *const *operands, const StepContext &) {
      if (!data.empty())
        std::memcpy(operands[0], data.data(), data.size());
    });
  return withStorage(type.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [n = type.numElements(), value = element<T>(spec, "value")](void *const *operands, const StepContext &) {
          std::fill(as<T>(operands[0]), as<T>(operands[0]) + n, value);
        });
  });
}

Prepared prepareIota(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(
      Check(spec).counts(0, 1).that([&] { return spec.operands[0].dims.size() == 1; }, "one dimension").done());
  double start = spec.getReal("start", 0), delta = spec.getReal("delta", 1);
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=, n = spec.operands[0].dims[0]](void *const *operands, const StepContext &) {
      for (int64_t i = 0; i < n; ++i) {
        double value = start + static_cast<double>(i) * delta;
        if constexpr (!Element<T>::isFloat) // as in cast: saturates
          value = std::isnan(value) ? 0 : std::min(std::max(value, -9.2e18), 9.2e18);
        if constexpr (Element<T>::isFloat)
          as<T>(operands[0])[i] = store<T>(static_cast<Compute<T>>(value));
        else
          as<T>(operands[0])[i] = store<T>(static_cast<Compute<T>>(static_cast<int64_t>(value)));
      }
    });
  });
}

Prepared prepareLossScale(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(0, 1)
          .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].numElements() == 1; },
                "a scalar of f32, bf16, f16 or f64")
          .done());
  return withFloat(spec.operands[0].dtype, [](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([](void *const *operands, const StepContext &context) {
      *as<T>(operands[0]) = store<T>(static_cast<Compute<T>>(context.lossScale));
    });
  });
}

} // namespace

void addConstant(KernelRegistry &registry) {
  registry.add("constant", prepareConstant);
  registry.add("iota", prepareIota);
  registry.add("loss_scale", prepareLossScale);
}

} // namespace zc::cpu
