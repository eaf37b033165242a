// cast: floats to integers truncate and saturate (NaN gives 0), anything to bool is x != 0, integers wrap.
#include "kernels/cpu/Support.h"

namespace zc::cpu {
namespace {

template <typename To, typename From> To convert(From value) {
  auto x = load(value);
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (Element<To>::isFloat) {
    return store<To>(static_cast<Compute<To>>(x));
  } else if constexpr (Element<From>::isFloat) {
    // The limits of To as doubles: max may round up to 2^63, which must saturate too.
    auto real = static_cast<double>(x);
    if (std::isnan(real))
      return 0;
    if (real >= static_cast<double>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (real <= static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(real);
  } else {
    return static_cast<To>(x);
  }
}

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
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(1, 1)
          .that([&] { return spec.operands[0].dims == spec.operands[1].dims; }, "a result of the operand's shape")
          .done());
  return withStorage(spec.operands[0].dtype, [&](auto tag) { return prepareFrom<TypeOf<decltype(tag)>>(spec); });
}

} // namespace

void addCast(KernelRegistry &registry) { registry.add("cast", prepareCast); }

} // namespace zc::cpu
