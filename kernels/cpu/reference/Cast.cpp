// cast
#include "kernels/formula/Cast.h"
#include "kernels/cpu/ElementShapes.h"

namespace zc::cpu {
namespace {

template <typename From> Prepared prepareFrom(const KernelSpec &spec) {
  return withStorage(spec.operands[1].dtype, [&](auto tag) {
    using To = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements()](void *const *operands, const StepContext &) {
      for (int64_t i = 0; i < n; ++i)
        as<To>(operands[1])[i] = convert<To>(as<From>(operands[0])[i]);
    });
  });
}

Prepared prepareCast(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkCast(spec));
  return withStorage(spec.operands[0].dtype, [&](auto tag) { return prepareFrom<TypeOf<decltype(tag)>>(spec); });
}

} // namespace

void addCast(KernelRegistry &registry) { registry.add("cast", prepareCast); }

} // namespace zc::cpu
