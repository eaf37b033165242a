// constant, iota and loss_scale: kernels without inputs.
#include "kernels/cpu/Support.h"
#include "kernels/shapes/MoveShapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// Attribute `value` (a splat) or `data` (raw little-endian elements).
Prepared prepareConstant(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkConstant(spec));
  const TensorType &type = spec.operands[0];
  if (!spec.has("value"))
    return makeKernel([data = spec.getText("data")](void *const *operands, const StepContext &) {
      if (!data.empty())
        std::memcpy(operands[0], data.data(), data.size());
    });
  return withStorage(type.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [n = type.numElements(), value = splatValue<T>(spec)](void *const *operands, const StepContext &) {
          std::fill(as<T>(operands[0]), as<T>(operands[0]) + n, value);
        });
  });
}

Prepared prepareIota(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkIota(spec));
  double start = spec.getReal("start", 0), delta = spec.getReal("delta", 1);
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=, n = spec.operands[0].dims[0]](void *const *operands, const StepContext &) {
      for (int64_t i = 0; i < n; ++i)
        as<T>(operands[0])[i] = iotaValue<T>(start, delta, i);
    });
  });
}

Prepared prepareLossScale(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkLossScale(spec));
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
