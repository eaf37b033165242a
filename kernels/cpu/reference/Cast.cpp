// cast
#include "kernels/formula/Cast.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cpu {
namespace {

/// One element's, called through a pointer: a loop for each of 169 pairs takes the compiler several times as long.
using CastElement = void (*)(const void *from, void *to);

template <typename From> CastElement castFrom(DType to) {
  return withStorage(to, [](auto tag) -> CastElement {
    using To = TypeOf<decltype(tag)>;
    return [](const void *from, void *to) { *static_cast<To *>(to) = convert<To>(*static_cast<const From *>(from)); };
  });
}

Prepared prepareCast(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkCast(spec));
  const DType from = spec.operands[0].dtype, to = spec.operands[1].dtype;
  CastElement cast = withStorage(from, [&](auto tag) { return castFrom<TypeOf<decltype(tag)>>(to); });
  return makeKernel([cast, n = spec.operands[0].numElements(), fromBytes = sizeOf(from),
                     toBytes = sizeOf(to)](void *const *operands, const StepContext &) {
    for (int64_t i = 0; i < n; ++i)
      cast(as<char>(operands[0]) + i * fromBytes, as<char>(operands[1]) + i * toBytes);
  });
}

} // namespace

void addCast(KernelRegistry &registry) { registry.add("cast", prepareCast); }

} // namespace zc::cpu
